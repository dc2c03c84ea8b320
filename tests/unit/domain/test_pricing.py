"""Prices: whole credits, output by output, never wrong by a begun unit, never above their bound."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from infra.catalog import load
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import Parameter
from workflows.domain.manifest import CREDITS_MAX, Manifest, Mode, OutputRule, ParameterSpec, Price, Rates
from workflows.domain.plan import ImageFacts, Plan, plan
from workflows.domain.pricing import OUTPUTS_MAX, Measure, price, unpriceable

UPSCALE = load().entries["image-upscale"].manifest
RATES = st.integers(0, 1_000)
PRICES = st.builds(
    Price,
    base=RATES,
    per_image=RATES,
    per_output_megapixel=RATES,
    per_second=RATES,
    per_frame=RATES,
    per_step=RATES,
    by_mode=st.dictionaries(
        st.sampled_from(["fast", "other"]), st.builds(Rates, base=st.none() | RATES, per_step=st.none() | RATES)
    ),
)
MEASURES = st.builds(
    Measure,
    width=st.integers(1, 20_000),
    height=st.integers(1, 20_000),
    is_image=st.booleans(),
    seconds=st.fractions(0, 60, max_denominator=1_000),
    frames=st.integers(0, 2_000),
    steps=st.integers(0, 100),
)


def video(**changes: object) -> Manifest:
    """A manifest of n clips, as a model of moving pictures would have it."""
    parameters = dict(UPSCALE.parameters) | {
        "n": ParameterSpec(type="integer", default=1, minimum=1, maximum=4),
        "seconds": ParameterSpec(type="number", default=5.0, minimum=1, maximum=10),
        "fps": ParameterSpec(type="integer", choices=(24, 30), default=24),
        "steps": ParameterSpec(type="integer", default=8, minimum=1, maximum=50),
    }
    output = UPSCALE.output.model_dump() | {"mime": "video/mp4", "seconds": "seconds", "fps": "fps", "count": "n"}
    modes = {
        "fast": Mode(description="", pixels_max=2**24, run_s_max=60, steps=8),
        "slow": Mode(description="", pixels_max=2**24, run_s_max=60, steps="steps"),
    }
    rule = Price(base=1, per_second=3, by_mode={"slow": Rates(per_second=0, per_frame=2, per_step=5)})
    fields = {"parameters": parameters, "output": OutputRule(**output), "modes": modes, "price": rule, **changes}
    return UPSCALE.model_copy(update=fields)


def planned(manifest: Manifest, mode: str | None = None, **given_: Parameter) -> Plan | Failure:
    image = ImageFacts("image/png", 1_000, 640, 480, 1, has_alpha=False)
    return plan(manifest, digest="d", mode=mode, parameters={"scale": "2", **given_}, inputs=[image])


@given(PRICES, st.sampled_from(["fast", "other", "third"]), st.lists(MEASURES, max_size=6))
def test_the_total_is_the_sum_of_the_outputs_and_of_the_lines(
    rule: Price, mode: str, outputs: list[Measure]
) -> None:
    terms = price(rule, mode, outputs)
    assert terms.total == sum(terms.per_output) == sum(line.credits for line in terms.lines)
    assert len(terms.per_output) == len(outputs)
    assert all(type(each) is int and each >= 0 for each in terms.per_output)
    assert all(line.count > 0 and line.each > 0 for line in terms.lines)
    alone = [price(rule, mode, [output]).total for output in outputs]
    assert list(terms.per_output) == alone, "an output costs the same whatever else is asked for"


@given(PRICES, MEASURES, st.data())
def test_more_never_costs_less(rule: Price, less: Measure, data: st.DataObject) -> None:
    grown = st.integers(0, 5_000)
    more = Measure(
        width=less.width + data.draw(grown),
        height=less.height + data.draw(grown),
        is_image=less.is_image,
        seconds=less.seconds + data.draw(grown),
        frames=less.frames + data.draw(grown),
        steps=less.steps + data.draw(grown),
    )
    assert price(rule, "fast", [less]).total <= price(rule, "fast", [more]).total
    assert price(rule, "fast", [less]).total <= price(rule, "fast", [less, more]).total


@given(PRICES, st.lists(MEASURES, min_size=1, max_size=6), st.data())
def test_a_part_never_costs_more_than_the_whole(rule: Price, outputs: list[Measure], data: st.DataObject) -> None:
    terms = price(rule, "fast", outputs)
    some = data.draw(st.sets(st.integers(0, len(outputs) - 1)))
    part = sum(terms.per_output[place] for place in some)
    assert 0 <= part <= terms.total
    assert (part == terms.total) or len(some) < len(outputs)


@given(RATES, st.integers(1, 40_000), st.integers(1, 40_000), st.fractions(0, 100, max_denominator=1_000))
def test_a_begun_unit_counts_whole_and_no_more(each: int, width: int, height: int, seconds: Fraction) -> None:
    measure = Measure(width, height, seconds=seconds)
    pixels = price(Price(per_output_megapixel=each), "fast", [measure]).total
    assert each * width * height <= pixels * 1_000_000
    assert (pixels - each) * 1_000_000 < each * width * height or each == 0
    assert price(Price(per_second=each), "fast", [measure]).total == each * math.ceil(seconds)


def test_each_kind_counts_its_own_unit() -> None:
    still = Measure(1_000, 1_001, steps=8)
    moving = Measure(1_000, 1_000, is_image=False, seconds=Fraction("5.167"), frames=124, steps=8)
    for rule, of_still, of_moving in (
        (Price(base=7), 7, 7),
        (Price(per_image=7), 7, 0),
        (Price(per_output_megapixel=7), 14, 7),
        (Price(per_second=7), 0, 42),
        (Price(per_frame=7), 0, 868),
        (Price(per_step=7), 56, 56),
    ):
        assert price(rule, "fast", [still, moving]).per_output == (of_still, of_moving)


def test_a_mode_overrides_the_rates_that_it_names_and_no_others() -> None:
    rule = Price(base=1, per_image=10, by_mode={"fast": Rates(per_image=0, per_step=2)})
    measure = Measure(64, 64, steps=8)
    assert price(rule, "slow", [measure]).total == 11
    terms = price(rule, "fast", [measure])
    assert [(line.what, line.count, line.each) for line in terms.lines] == [("base", 1, 1), ("step", 8, 2)]


@pytest.mark.parametrize(
    ("mode", "given_", "each"),
    [
        ("fast", {}, 1 + 3 * 5),
        ("fast", {"seconds": "5.001"}, 1 + 3 * 6),
        ("fast", {"seconds": "5.0"}, 1 + 3 * 5),
        ("slow", {"seconds": "5.01"}, 1 + 2 * 121 + 5 * 8),
        ("slow", {"steps": "25", "seconds": "5.1", "fps": "30"}, 1 + 2 * 153 + 5 * 25),
    ],
)
def test_a_manifest_alone_prices_moving_pictures(mode: str, given_: dict[str, str], each: int) -> None:
    manifest = video()
    assert unpriceable(manifest) is None
    result = planned(manifest, mode, n="3", **given_)
    assert isinstance(result, Plan)
    assert result.price.per_output == (each, each, each)
    assert len(result.outputs) == 3
    assert result.price_credits == 3 * each


def test_frames_that_a_manifest_states_count_as_stated() -> None:
    stated = video(output=OutputRule(**UPSCALE.output.model_dump() | {"frames": 124}), price=Price(per_frame=1))
    result = planned(stated)
    assert isinstance(result, Plan)
    assert result.price_credits == 124


def test_nothing_costs_more_than_the_stated_most() -> None:
    at_most = planned(video(price=Price(base=CREDITS_MAX)))
    assert isinstance(at_most, Plan)
    assert at_most.price_credits == CREDITS_MAX
    above = planned(video(price=Price(base=CREDITS_MAX, per_step=1)))
    assert isinstance(above, Failure)
    assert above.code is Code.INVALID_REQUEST
    assert str(CREDITS_MAX) in above.message


def test_more_outputs_than_a_history_should_carry_are_refused() -> None:
    many = dict(video().parameters) | {"n": ParameterSpec(type="integer", required=True, minimum=1, maximum=1000)}
    refused = planned(video(parameters=many), n=str(OUTPUTS_MAX + 1))
    assert isinstance(refused, Failure)
    assert refused.param == "n"
    assert isinstance(planned(video(parameters=many), n=str(OUTPUTS_MAX)), Plan)


@pytest.mark.parametrize("wrong", [-1, 0.5, "1", True, CREDITS_MAX + 1, None, math.nan])
def test_a_rate_that_is_no_whole_number_of_credits_is_refused(wrong: object) -> None:
    for kind in (Price, Rates):
        if kind is Rates and wrong is None:
            continue
        with pytest.raises(ValidationError):
            kind.model_validate({"per_second": wrong})
