"""Messages are frozen, and only grow.

Reason: histories are replayed for as long as they are kept, and in a rolling deployment old and new workers
read each other's messages. A removed, renamed or newly required field breaks both, weeks after the change
looked fine. The record in `contract_fields.json` remembers what was once sent.
"""

import pytest
from pydantic import ValidationError

from tests.house.contract_fields import fields_of, grown, messages, mistakes, recorded
from workflows.contracts.message import Message


@pytest.mark.parametrize("message", messages().values(), ids=str)
def test_every_message_is_frozen_and_ignores_what_it_does_not_know(message: type[Message]) -> None:
    assert message.model_config.get("frozen") is True
    assert message.model_config.get("extra") == "ignore"


def test_no_message_lost_a_field_or_gained_a_required_one() -> None:
    now = {name: fields_of(message) for name, message in messages().items()}
    assert mistakes(recorded(), now) == []


def test_each_mistake_is_caught_and_teaches_its_cure() -> None:
    record = {"m.A": {"x": True, "y": False}}
    assert mistakes(record, {"m.A": {"x": True, "y": False}}) == []
    assert mistakes(record, {"m.A": {"x": False, "y": False}}) == []
    for now, cure in (
        ({}, "Put it back"),
        ({"m.A": {"x": True}}, "keep the field"),
        ({"m.A": {"x": True, "y": True}}, "give it a default"),
        ({"m.A": {"x": True, "y": False, "z": True}}, "give it one"),
        ({"m.A": {"x": True, "y": False, "z": False}}, "refresh"),
        ({"m.A": {"x": True, "y": False}, "m.B": {"x": True}}, "refresh"),
    ):
        (mistake,) = mistakes(record, now)
        assert cure in mistake


def test_the_record_only_grows() -> None:
    record = {"m.A": {"x": True, "gone": True}}
    assert grown(record, {"m.A": {"x": False, "new": False}, "m.B": {"x": True}}) == {
        "m.A": {"x": True, "gone": True, "new": False},
        "m.B": {"x": True},
    }


def test_a_frozen_message_refuses_assignment() -> None:
    class Sample(Message):
        x: int

    with pytest.raises(ValidationError):
        setattr(Sample(x=1), "x", 2)  # noqa: B010 - plain assignment wouldn't pass the type checker
