"""A model as its manifest declares it. `infra/catalog` reads the file; this says what it may hold."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


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


class Mode(_Part):
    """One way to run the model. `pixels_max` bounds the input so that `run_s_max` is enough on a slow card."""

    description: str
    pixels_max: Annotated[int, Field(gt=0)]
    run_s_max: Annotated[int, Field(gt=0, le=3600)]


class OutputRule(_Part):
    """How the result's size follows from the input, and what it must be."""

    role: str
    mime: str
    size: Literal["scaled_input"]
    alpha: Literal["as_input", "never"]
    bytes_per_pixel_max: Annotated[float, Field(gt=0)]


class Price(_Part):
    """Whole credits: `base` and, for each begun megapixel (10^6 pixels) of output, `per_output_megapixel`."""

    base: Annotated[int, Field(ge=0)]
    per_output_megapixel: Annotated[int, Field(ge=0)] = 0


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
    wait_s_max: Annotated[int, Field(gt=0)]
    queue_max: Annotated[int, Field(gt=0)]
    cancellable: bool
    resolve_by_s: Annotated[int, Field(gt=0)] = 86_400
    release_unknown: bool = False
    likeness: Literal["none", "required"] = "none"
    content_days: Annotated[int, Field(gt=0)] = 30
    canary: Canary
