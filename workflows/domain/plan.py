"""From a manifest and a checked request to what will run, what must come out, and what it costs. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import ModelSnapshot, Parameter, PlacementNeeds, ResidentNeed
from workflows.contracts.media import BlobRef, InputImage, MediaContract
from workflows.contracts.prices import UNIT, PriceTerms
from workflows.domain.manifest import CREDITS_MAX, Manifest, Mode
from workflows.domain.parameters import resolve_parameters
from workflows.domain.placement.capable import Need
from workflows.domain.placement.fleet import Priority, Resident, Work
from workflows.domain.pricing import OUTPUTS_MAX, Measure, figure, price

IMAGE_FIELD = "image"
BYTES_OF_FRAME = 65_536
"""Allowed on top of an output's bytes per pixel, for headers and colour profiles of small pictures."""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What is known of a picture from its own bytes.

    Attributes:
        mime: The type found in the bytes.
        size: Bytes.
        width: Pixels, upright.
        height: Pixels, upright.
        frames: 1 for a still picture.
        has_alpha: Whether it has an alpha channel, a palette's transparency included.
        blank: True when it is (nearly) of one colour; known only after a full decode.
    """

    mime: str
    size: int
    width: int
    height: int
    frames: int
    has_alpha: bool
    blank: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A request that fits its model.

    Attributes:
        snapshot: What the manifest said.
        parameters: Canonical values for the engine.
        outputs: What must come out.
        price: What it costs, output by output.
        wait_s_max: Seconds it may wait before it expires.
    """

    snapshot: ModelSnapshot
    parameters: dict[str, Parameter]
    outputs: tuple[MediaContract, ...]
    price: PriceTerms
    wait_s_max: int

    @property
    def price_credits(self) -> int:
        """What is held, in whole credits."""
        return self.price.total


def need_of(manifest: Manifest) -> Need:
    """What the model asks of its cards, whatever its mode."""
    return Need(
        engine=manifest.engine,
        capability=manifest.capability,
        mib=manifest.vram_budget_mib + manifest.reserve_mib,
        cards=manifest.cards,
    )


def work_of(manifest: Manifest) -> Work:
    """The work of the model's first mode, as placement knows it before any request."""
    mode = next(iter(manifest.modes.values()))
    return Work(
        key=manifest.id,
        capability=manifest.capability,
        engine=manifest.engine,
        budget_mib=manifest.vram_budget_mib,
        run_s=mode.run_s,
        reserve_mib=manifest.reserve_mib,
        residents=tuple(Resident(name, **manifest.residents[name].model_dump()) for name in mode.uses),
        cards=manifest.cards,
        priority=Priority(manifest.priority),
    )


def choose_mode(manifest: Manifest, asked: str | None) -> tuple[str, Mode] | Failure:
    """The mode asked for, or the manifest's first."""
    name = next(iter(manifest.modes)) if asked is None else asked
    mode = manifest.modes.get(name)
    if mode is None:
        known = ", ".join(manifest.modes)
        return _refusal(f"`mode` must be one of {known}.", "mode")
    return name, mode


def refuse_count(manifest: Manifest, count: int) -> Failure | None:
    """Too few or too many pictures for the model."""
    limits = manifest.images
    if limits.count_min <= count <= limits.count_max:
        return None
    wanted = (
        str(limits.count_min)
        if limits.count_min == limits.count_max
        else f"{limits.count_min} to {limits.count_max}"
    )
    return _refusal(f"`{manifest.id}` takes {wanted} of `{IMAGE_FIELD}`; {count} came.", IMAGE_FIELD)


def refuse_image(manifest: Manifest, mode_name: str, image: ImageFacts) -> Failure | None:
    """Why the model won't take a picture, judged from its header alone: nothing was decoded yet."""
    limits = manifest.images
    if image.mime not in limits.mimes:
        message = f"`{IMAGE_FIELD}` is {image.mime}; this model takes {', '.join(limits.mimes)}."
        return Failure(code=Code.INVALID_MEDIA_TYPE, message=message, param=IMAGE_FIELD)
    if image.size > limits.bytes_max:
        return _too_large(f"`{IMAGE_FIELD}` has {image.size} bytes; the limit is {limits.bytes_max}.")
    if image.frames != 1:
        message = f"`{IMAGE_FIELD}` is animated ({image.frames} frames); the limit is 1 frame."
        return Failure(code=Code.INVALID_MEDIA, message=message, param=IMAGE_FIELD)
    return _refuse_pixels(manifest, mode_name, image)


def plan(
    manifest: Manifest,
    *,
    digest: str,
    mode: str | None,
    parameters: Mapping[str, Parameter],
    inputs: Sequence[ImageFacts],
) -> Plan | Failure:
    """What will run, or why it won't.

    Args:
        manifest: The model.
        digest: SHA-256 of the manifest and everything it names.
        mode: As asked; None means the default.
        parameters: As sent.
        inputs: The pictures in order, probed.

    The order of its refusals is that of a creation, which looks at the pictures before anything is planned.
    """
    chosen = choose_mode(manifest, mode)
    if isinstance(chosen, Failure):
        return chosen
    mode_name, mode_spec = chosen
    refusal = refuse_count(manifest, len(inputs))
    for image in inputs:
        refusal = refusal or refuse_image(manifest, mode_name, image)
    if refusal is not None:
        return refusal
    values = resolve_parameters(manifest.parameters, parameters)
    if isinstance(values, Failure):
        return values
    outputs = _outputs(manifest, values, inputs)
    if isinstance(outputs, Failure):
        return outputs
    terms = price(manifest.price, mode_name, [_measure(manifest, mode_spec, values, one) for one in outputs])
    if terms.total > CREDITS_MAX:
        message = f"This would cost {terms.total} {UNIT}s; the most for one generation is {CREDITS_MAX}."
        return Failure(code=Code.INVALID_REQUEST, message=message)
    return Plan(
        snapshot=_snapshot(manifest, digest, mode_name, mode_spec),
        parameters=values,
        outputs=outputs,
        price=terms,
        wait_s_max=manifest.wait_s_max,
    )


def input_image(facts: ImageFacts, sha256: str) -> InputImage:
    """The reference to a probed picture that travels with the request."""
    return InputImage(
        blob=BlobRef(sha256=sha256, size=facts.size, mime=facts.mime),
        width=facts.width,
        height=facts.height,
        has_alpha=facts.has_alpha,
    )


def _refuse_pixels(manifest: Manifest, mode_name: str, image: ImageFacts) -> Failure | None:
    limits, mode = manifest.images, manifest.modes[mode_name]
    size = f"{image.width} x {image.height} pixels"
    if max(image.width, image.height) > limits.side_max:
        return _too_large(f"`{IMAGE_FIELD}` has {size}; the limit is {limits.side_max} for each side.")
    if min(image.width, image.height) < limits.side_min:
        return _refusal(f"`{IMAGE_FIELD}` has {size}; the least is {limits.side_min} for each side.", IMAGE_FIELD)
    if image.width * image.height > mode.pixels_max:
        return _too_large(
            f"`{IMAGE_FIELD}` has {size}, {image.width * image.height} in all; the limit of mode "
            f"`{mode_name}` is {mode.pixels_max}{_roomier(manifest, image)}."
        )
    return None


def _outputs(
    manifest: Manifest, values: Mapping[str, Parameter], inputs: Sequence[ImageFacts]
) -> tuple[MediaContract, ...] | Failure:
    """A contract for each output asked for; they are all alike."""
    asked = manifest.output.count
    count = int(figure(asked, values))
    if count > OUTPUTS_MAX:
        param = str(asked)
        return _refusal(f"`{param}` is {count}; the most outputs of one generation are {OUTPUTS_MAX}.", param)
    return (_scaled(manifest, values, inputs[0]),) * count


def _measure(manifest: Manifest, mode: Mode, values: Mapping[str, Parameter], output: MediaContract) -> Measure:
    rule = manifest.output
    seconds = figure(rule.seconds, values)
    frames = figure(rule.frames, values) if rule.frames is not None else seconds * figure(rule.fps, values)
    return Measure(
        width=output.width,
        height=output.height,
        is_image=output.mime.startswith("image/"),
        seconds=seconds,
        frames=math.ceil(frames),
        steps=int(figure(mode.steps, values)),
    )


def _scaled(manifest: Manifest, values: Mapping[str, Parameter], image: ImageFacts) -> MediaContract:
    rule = manifest.output
    scale = int(values["scale"])
    width, height = image.width * scale, image.height * scale
    return MediaContract(
        role=rule.role,
        mime=rule.mime,
        width=width,
        height=height,
        has_alpha=image.has_alpha if rule.alpha == "as_input" else False,
        bytes_max=BYTES_OF_FRAME + int(width * height * rule.bytes_per_pixel_max),
        may_be_blank=image.blank,
    )


def _snapshot(manifest: Manifest, digest: str, mode_name: str, mode: Mode) -> ModelSnapshot:
    return ModelSnapshot(
        model_id=manifest.id,
        digest=digest,
        capability=manifest.capability,
        engine=manifest.engine,
        mode=mode_name,
        vram_budget_mib=manifest.vram_budget_mib,
        run_s_max=mode.run_s_max,
        queue_max=manifest.queue_max,
        cancellable=manifest.cancellable,
        resolve_by_s=manifest.resolve_by_s,
        release_unknown=manifest.release_unknown,
        content_days=manifest.content_days,
        placement=PlacementNeeds(
            run_s=mode.run_s,
            reserve_mib=manifest.reserve_mib,
            cards=manifest.cards,
            priority=manifest.priority,
            residents=tuple(_need(manifest, name) for name in mode.uses),
        ),
    )


def _need(manifest: Manifest, name: str) -> ResidentNeed:
    spec = manifest.residents[name]
    return ResidentNeed(
        name=name, mib=spec.mib, load_s=spec.load_s, stop_s=spec.stop_s, working_mib=spec.working_mib
    )


def _roomier(manifest: Manifest, image: ImageFacts) -> str:
    """The hint which mode would take the picture, when one does."""
    fitting = [name for name, mode in manifest.modes.items() if image.width * image.height <= mode.pixels_max]
    return f"; mode `{fitting[0]}` takes it" if fitting else ""


def _too_large(message: str) -> Failure:
    return Failure(code=Code.PAYLOAD_TOO_LARGE, message=message, param=IMAGE_FIELD)


def _refusal(message: str, param: str) -> Failure:
    return Failure(code=Code.INVALID_REQUEST, message=message, param=param)
