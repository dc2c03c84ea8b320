"""What a request costs: whole credits, output by output, known before anything is held. Pure.

Everything here counts in integers and exact fractions; no sum of money ever goes through a float.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from workflows.contracts.generation import Parameter
from workflows.contracts.prices import PriceLine, PriceTerms
from workflows.domain.manifest import Figure, Manifest, Price

MEGAPIXEL = 1_000_000
"""Pixels; prices count begun ones."""
OUTPUTS_MAX = 64
"""Of one generation: each has its contract in the request, which travels through histories."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One output, as far as its price depends on it.

    Attributes:
        width: Pixels.
        height: Pixels.
        is_image: A still picture.
        seconds: Of moving pictures.
        frames: Of moving pictures.
        steps: That the engine takes for it.
    """

    width: int
    height: int
    is_image: bool = True
    seconds: Fraction = Fraction(0)
    frames: int = 0
    steps: int = 0

    def units(self) -> dict[str, int]:
        """How many begun units of each rate of `Price` it has."""
        return {
            "base": 1,
            "per_image": 1 if self.is_image else 0,
            "per_output_megapixel": -(-self.width * self.height // MEGAPIXEL),
            "per_second": math.ceil(self.seconds),
            "per_frame": self.frames,
            "per_step": self.steps,
        }


def price(rule: Price, mode: str, outputs: Sequence[Measure]) -> PriceTerms:
    """The terms for `outputs` in a mode: each output's own price, and what the sum consists of."""
    rates = rule.rates(mode)
    units = [output.units() for output in outputs]
    return PriceTerms(
        per_output=tuple(sum(each * counts[unit] for unit, each in rates.items()) for counts in units),
        lines=tuple(
            PriceLine(what=unit.removeprefix("per_"), count=count, each=each)
            for unit, each in rates.items()
            if (count := sum(counts[unit] for counts in units))
        ),
    )


def figure(value: Figure | None, parameters: Mapping[str, Parameter]) -> Fraction:
    """A manifest's figure for these parameters, exactly as the caller wrote it; 0 where there is none."""
    if value is None:
        return Fraction(0)
    given = parameters[value] if isinstance(value, str) else value
    return Fraction(str(given))


def unpriceable(manifest: Manifest) -> str | None:
    """Why a manifest's prices can't be told before a run; None when they can."""
    return next(_problems(manifest), None)


def _problems(manifest: Manifest) -> Iterator[str]:
    rule, output = manifest.price, manifest.output
    for name in sorted(rule.by_mode.keys() - manifest.modes.keys()):
        yield f"price: `by_mode` names `{name}`, which is no mode"
    whole = {"output.count": output.count, "output.frames": output.frames}
    whole |= {f"modes.{name}.steps": mode.steps for name, mode in manifest.modes.items()}
    for name, value in (whole | {"output.seconds": output.seconds, "output.fps": output.fps}).items():
        problem = _unfit(manifest, value, whole=name in whole) if isinstance(value, str) else None
        if problem is not None:
            yield f"{name}: {problem}"
    if isinstance(output.count, int) and output.count > OUTPUTS_MAX:
        yield f"output.count: the most is {OUTPUTS_MAX}"
    for name, mode in manifest.modes.items():
        rates = rule.rates(name)
        if "per_step" in rates and mode.steps is None:
            yield f"price: `per_step` needs `steps` of mode `{name}`"
        if "per_second" in rates and output.seconds is None:
            yield "price: `per_second` needs `seconds` of the output"
        if "per_frame" in rates and output.frames is None and None in (output.seconds, output.fps):
            yield "price: `per_frame` needs `frames` of the output, or its `seconds` and `fps`"


def _unfit(manifest: Manifest, name: str, *, whole: bool) -> str | None:
    """Why a parameter can't give a figure: its type, or a value that might be missing, negative or endless."""
    spec = manifest.parameters.get(name)
    if spec is None or spec.type not in ({"integer"} if whole else {"integer", "number"}):
        return f"`{name}` is no parameter that is {'an integer' if whole else 'a number'}"
    if not spec.required and spec.default is None:
        return f"`{name}` must be required or have a default"
    numbers = [spec.minimum, spec.maximum] if spec.choices is None else list(spec.choices)
    if any(not isinstance(number, int | float) or number <= 0 for number in numbers):
        return f"`{name}` needs choices, or a minimum and a maximum, all above 0"
    return None
