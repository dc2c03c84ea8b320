"""From a manifest and a checked request to what will run, what must come out, and what it costs."""

import pytest

from infra.catalog import load
from workflows.contracts.failures import Code, Failure
from workflows.contracts.generation import Parameter
from workflows.domain.manifest import ParameterSpec
from workflows.domain.parameters import canonical_parameter, resolve_parameters
from workflows.domain.plan import ImageFacts, Plan, plan

MANIFEST = load().entries["image-upscale"].manifest


def facts(width: int = 640, height: int = 480, *, alpha: bool = False, blank: bool = False) -> ImageFacts:
    return ImageFacts("image/png", 1_000, width, height, 1, has_alpha=alpha, blank=blank)


def planned(image: ImageFacts, mode: str | None = None, **parameters: Parameter) -> Plan | Failure:
    return plan(MANIFEST, digest="d", mode=mode, parameters=parameters or {"scale": "2"}, inputs=[image])


def test_a_plan_says_what_must_come_out() -> None:
    result = planned(facts(640, 480, alpha=True), scale="4")

    assert isinstance(result, Plan)
    (output,) = result.outputs
    assert (output.width, output.height, output.has_alpha, output.mime) == (2560, 1920, True, "image/png")
    assert result.parameters == {"scale": 4}
    assert result.price_credits == 1 + 5  # 4.9 megapixels
    assert (result.snapshot.mode, result.snapshot.digest, result.snapshot.run_s_max) == ("fast", "d", 900)
    assert result.snapshot.content_days == 30
    assert result.wait_s_max == 1800


def test_only_a_blank_input_may_give_a_blank_output() -> None:
    for blank in (True, False):
        result = planned(facts(blank=blank))
        assert isinstance(result, Plan)
        assert result.outputs[0].may_be_blank is blank


@pytest.mark.parametrize(
    ("image", "mode", "code", "says"),
    [
        (facts(8193, 16), None, Code.PAYLOAD_TOO_LARGE, "8192"),
        (facts(4096, 4097), None, Code.PAYLOAD_TOO_LARGE, "16777216"),
        (facts(1024, 1025), "photo", Code.PAYLOAD_TOO_LARGE, "mode `fast` takes it"),
        (facts(15, 100), None, Code.INVALID_REQUEST, "16"),
        (ImageFacts("image/gif", 9, 64, 64, 1, has_alpha=False), None, Code.INVALID_MEDIA_TYPE, "image/webp"),
        (ImageFacts("image/png", 9, 64, 64, 2, has_alpha=False), None, Code.INVALID_MEDIA, "1 frame"),
        (ImageFacts("image/png", 52428801, 64, 64, 1, has_alpha=False), None, Code.PAYLOAD_TOO_LARGE, "52428800"),
    ],
)
def test_a_refusal_names_field_and_limit(image: ImageFacts, mode: str | None, code: Code, says: str) -> None:
    refusal = planned(image, mode)

    assert isinstance(refusal, Failure)
    assert (refusal.code, refusal.param) == (code, "image")
    assert says in refusal.message


def test_the_largest_that_is_allowed_is_allowed() -> None:
    assert isinstance(planned(facts(4096, 4096)), Plan)
    assert isinstance(planned(facts(1024, 1024), "photo"), Plan)
    assert isinstance(planned(facts(8192, 16)), Plan)


@pytest.mark.parametrize(
    ("kind", "spellings"),
    [
        ("integer", ["2", 2, " 2 ", "02", "+2"]),
        ("number", ["0.5", 0.5, ".5", "5e-1"]),
        ("boolean", ["true", True, "1", "TRUE"]),
    ],
)
def test_equal_values_have_one_spelling(kind: str, spellings: list[Parameter]) -> None:
    spec = ParameterSpec.model_validate({"type": kind})
    assert len({canonical_parameter(spec, raw) for raw in spellings}) == 1


@pytest.mark.parametrize(
    ("spec", "raw"),
    [
        ({"type": "integer"}, "2.5"),
        ({"type": "integer"}, "1e3"),
        ({"type": "integer"}, ""),
        ({"type": "integer", "maximum": 10}, "11"),
        ({"type": "integer", "minimum": 0}, "-1"),
        ({"type": "number"}, "nan"),
        ({"type": "number"}, "inf"),
        ({"type": "boolean"}, "yes"),
        ({"type": "string"}, "x" * 4001),
        ({"type": "string", "choices": ["a", "b"]}, "c"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(spec: dict[str, object], raw: str) -> None:
    refusal = resolve_parameters({"p": ParameterSpec.model_validate(spec)}, {"p": raw})

    assert isinstance(refusal, Failure)
    assert (refusal.code, refusal.param) == (Code.INVALID_REQUEST, "p")
    assert "`p`" in refusal.message


def test_a_seed_of_64_bits_keeps_its_digits() -> None:
    specs = {"seed": ParameterSpec(type="integer")}
    assert resolve_parameters(specs, {"seed": "5400121572116419001"}) == {"seed": 5400121572116419001}


def test_defaults_are_filled_in_and_required_ones_asked_for() -> None:
    specs = {"a": ParameterSpec(type="integer", default=7), "b": ParameterSpec(type="string")}
    assert resolve_parameters(specs, {}) == {"a": 7}
    refusal = resolve_parameters({"a": ParameterSpec(type="integer", required=True, choices=(2, 4))}, {})
    assert isinstance(refusal, Failure)
    assert refusal.message == "`a` is required: one of 2, 4."
