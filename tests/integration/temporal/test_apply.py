"""The server becomes what temporal.yaml says, and differences are told by name."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from infra.settings import Settings
from infra.temporal.apply import Difference, apply, differences
from infra.temporal.configuration import TemporalConfiguration, read_configuration
from infra.temporal.connection import TemporalNotConfiguredError, connect

Configured = Callable[..., Settings]


async def applied(settings: Settings) -> list[Difference]:
    return await apply(await connect(settings), read_configuration(settings))


async def differing(settings: Settings) -> list[Difference]:
    return await differences(await connect(settings), read_configuration(settings))


async def test_a_new_namespace_is_made_with_all_its_attributes_and_once(configured: Configured) -> None:
    settings = configured()
    wanted = read_configuration(settings)
    missing = {"namespace", "schedule sweep"} | {f"search attribute {name}" for name in wanted.search_attributes}
    assert {difference.what for difference in await differing(settings)} == missing
    assert {difference.what for difference in await applied(settings)} == missing
    assert await differing(settings) == []
    assert await applied(settings) == []


async def test_the_embedded_server_has_its_attributes_from_its_command_line(server: Settings) -> None:
    await applied(server)
    assert await differing(server) == []


async def test_a_changed_retention_is_told_and_applied(configured: Configured) -> None:
    await applied(configured())

    def longer(file: dict[str, Any]) -> None:
        file["namespace"]["retention_days"] = 45

    settings = configured(longer)
    assert await differing(settings) == [Difference("retention", "30 days", "45 days")]
    await applied(settings)
    assert await differing(settings) == []


async def test_a_new_attribute_is_added_and_one_of_another_type_is_left_to_a_person(
    configured: Configured,
) -> None:
    await applied(configured())

    def changed(file: dict[str, Any]) -> None:
        file["search_attributes"] |= {"Tenant": "Keyword", "Card": "Int"}

    settings = configured(changed)
    by_hand = Difference("search attribute Card", "Keyword", "Int", applicable=False)
    assert await applied(settings) == [by_hand, Difference("search attribute Tenant", "absent", "Keyword")]
    assert await differing(settings) == [by_hand]


@pytest.mark.parametrize(
    ("section", "wrong", "named"),
    [
        ("namespace", {"retention_dasy": 3}, "retention_dasy"),
        ("task_queues", {"medai": {}}, "medai"),
        ("search_attributes", {"Card": "Keywrod"}, "search_attributes.Card"),
        ("namespace", {"retention_days": 0}, "retention_days"),
    ],
)
def test_a_mistake_is_refused_by_name(
    configured: Configured, section: str, wrong: dict[str, object], named: str
) -> None:
    settings = configured(lambda file: file[section].update(wrong))
    with pytest.raises(ValidationError, match=named):
        read_configuration(settings)


def test_the_shipped_file_is_right() -> None:
    assert isinstance(read_configuration(Settings()), TemporalConfiguration)


async def test_no_address_is_told_as_such(configured: Configured) -> None:
    settings = configured().model_copy(update={"temporal_address": None})
    with pytest.raises(TemporalNotConfiguredError, match="HOLDFAST_TEMPORAL_ADDRESS"):
        await connect(settings)
