"""A model as its manifest declares it. `infra/catalog` reads the file; this says what it may hold."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Part(BaseModel):
    """Manifests are written by people: an unknown key is a mistake and is refused by name."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ParameterSpec(_Part):
    """One parameter the model takes."""

    type: Literal["integer", "number", "string", "boolean"]
    required: bool = False
    default: str | int | float | bool | None = None
    choices: tuple[str | int | float, ...] | None = None
    minimum: float | None = None
    maximum: float | None = None


class ImageLimits(_Part):
    """What an input picture may be. Checked from its header while it streams, before it is decoded."""

    count_min: Annotated[int, Field(ge=0)]
    count_max: Annotated[int, Field(ge=0)]
    mimes: tuple[str, ...]
    bytes_max: Annotated[int, Field(gt=0)]
    side_min: Annotated[int, Field(gt=0)]
    side_max: Annotated[int, Field(gt=0)]


Figure = Annotated[int, Field(gt=0, strict=True)] | str
"""A whole number, or the name of the parameter that gives it."""


class Mode(_Part):
    """One way to run the model. `pixels_max` bounds the input so that `run_s_max` is enough on a slow card."""

    description: str
    pixels_max: Annotated[int, Field(gt=0)]
    run_s_max: Annotated[int, Field(gt=0, le=3600)]
    run_s: Annotated[float, Field(gt=0, le=3600)] = 60.0
    """Expected on a warm card, until runs were seen."""
    uses: tuple[str, ...] = ()
    """Residents of the manifest, in the order of use."""
    steps: Figure | None = None
    """Sampling steps of a run, where the model has such."""


class OutputRule(_Part):
    """How many results there are, how their size follows from the input, and what each must be.

    `seconds`, `fps` and `frames` are of moving pictures; without `frames` there are `seconds` times `fps` of them.
    """

    role: str
    mime: str
    size: Literal["scaled_input"]
    alpha: Literal["as_input", "never"]
    bytes_per_pixel_max: Annotated[float, Field(gt=0)]
    count: Figure = 1
    seconds: Figure | None = None
    fps: Figure | None = None
    frames: Figure | None = None


CREDITS_MAX = 1_000_000_000
"""Of one generation, and of each rate. Far above any price, and far below what an account can hold."""
Credits = Annotated[int, Field(ge=0, le=CREDITS_MAX, strict=True)]
"""Whole credits; a fraction, a word or a truth value is a mistake in the manifest."""


class Rates(_Part):
    """What a mode charges otherwise than the model; what isn't named stays."""

    base: Credits | None = None
    per_image: Credits | None = None
    per_output_megapixel: Credits | None = None
    per_second: Credits | None = None
    per_frame: Credits | None = None
    per_step: Credits | None = None


class Price(_Part):
    """Whole credits for each output; a begun unit counts whole.

    Attributes:
        base: Whatever the output is.
        per_image: When it is a still picture.
        per_output_megapixel: For 10^6 pixels of a picture, or of one frame.
        per_second: For a second of moving pictures.
        per_frame: For a frame of them.
        per_step: For a step that the engine takes.
        by_mode: Other rates of single modes.
    """

    base: Credits = 0
    per_image: Credits = 0
    per_output_megapixel: Credits = 0
    per_second: Credits = 0
    per_frame: Credits = 0
    per_step: Credits = 0
    by_mode: dict[str, Rates] = {}

    def rates(self, mode: str) -> dict[str, int]:
        """Credits by unit, in the order above, of those units that cost anything in this mode."""
        other = self.by_mode.get(mode, Rates()).model_dump(exclude_none=True)
        rates: dict[str, int] = {**self.model_dump(exclude={"by_mode"}), **other}
        return {unit: each for unit, each in rates.items() if each}


class ResidentSpec(_Part):
    """What stays in a card's memory between runs: a part of the model, or a service that it calls.

    `working_mib` is what a run takes beside it while it is in use.
    """

    mib: Annotated[int, Field(ge=0)]
    load_s: Annotated[float, Field(ge=0)]
    stop_s: Annotated[float, Field(ge=0)] = 0.0
    working_mib: Annotated[int, Field(ge=0)] = 0


class Canary(_Part):
    """The minimal real request: a picture of `side` pixels made by us, and these parameters."""

    side: Annotated[int, Field(ge=16, le=512)]
    parameters: dict[str, str | int | float | bool]


class Manifest(_Part):
    """One model."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    name: str
    aliases: tuple[str, ...] = ()
    capability: str
    engine: Literal["native", "comfyui", "http_task", "fake"]
    modes: Annotated[dict[str, Mode], Field(min_length=1)]
    """The first is the default."""
    parameters: dict[str, ParameterSpec]
    images: ImageLimits
    output: OutputRule
    price: Price
    vram_budget_mib: Annotated[int, Field(ge=0)]
    reserve_mib: Annotated[int, Field(ge=0)] = 0
    cards: Annotated[int, Field(ge=1, le=16)] = 1
    """Cards of one host that a run needs at the same time."""
    priority: Literal["interactive", "standard", "batch"] = "interactive"
    residents: dict[str, ResidentSpec] = {}
    warm_min: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Cards that keep what the first mode uses, also while nobody asks for it."""
    wait_s_max: Annotated[int, Field(gt=0)]
    queue_max: Annotated[int, Field(gt=0)]
    cancellable: bool
    resolve_by_s: Annotated[int, Field(gt=0)] = 86_400
    release_unknown: bool = False
    likeness: Literal["none", "required"] = "none"
    content_days: Annotated[int, Field(gt=0)] = 30
    canary: Canary

    @model_validator(mode="after")
    def _residents_are_declared(self) -> "Manifest":
        for name, mode in self.modes.items():
            unknown = [each for each in mode.uses if each not in self.residents]
            if unknown:
                raise ValueError(f"modes.{name}.uses: `{unknown[0]}` isn't one of residents")
        return self
