"""kill -9 between every two statements of hold, settle, release and resolve: everything ends as without."""

import re
from collections.abc import Iterator

import pytest

from tests.integration.money.ground import Ground
from tests.integration.money.scenarios import SCENARIOS, Scenario
from tests.integration.money.traces import differences
from tests.support.postgres import PostgresServer
from tests.support.statement_faults import NotUnderstood, with_points

WITHOUT_EFFECT = re.compile(r"raise exception\b|return\b")
"""Statements before which nothing new has happened: a refusal is rolled back, an early answer changed nothing."""
BOOKS = re.compile(
    r"\b(insert into|update)\s+"
    r"(account|transfer|credit_lot|lot_draw|spend_day|operation|generation|event|outbox|operator_act)\b"
)
"""What a function says that writes of credits, or of what is told of them."""


@pytest.fixture(scope="module")
def ground(mortal: PostgresServer) -> Iterator[Ground]:
    """One database for all: each run has an account, a generation and a card of its own."""
    name = mortal.create_database()
    yield Ground(mortal.conninfo(name))
    mortal.drop_database(name)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_a_kill_between_any_two_statements_changes_nothing(ground: Ground, scenario: Scenario) -> None:
    path, answer, left = await ground.without_kill(scenario)
    assert path, "the step passes points, or nothing is tested here"
    for at, point in enumerate(path, 1):
        if ground.is_new(scenario, point, path[: at - 1].count(point)):
            told, rows = await ground.with_kill(scenario, at)
            assert (told, differences(left, rows)) == (answer, []), f"killed at {point}"
    told, rows = await ground.with_lost_answer(scenario)
    if scenario.repeats:
        assert differences(left, rows) == [], "killed after its commit"
        assert told == answer or not scenario.answers_alike


async def test_every_statement_of_the_functions_on_the_way_was_killed_at(ground: Ground) -> None:
    """Runs after the test above. A new statement that no scenario reaches is named here."""
    if len(ground.ran) < len(SCENARIOS):
        pytest.skip("not all scenarios were asked for")
    reached = {point.partition(".")[0] for point in ground.passed}
    written = {name for name in reached if BOOKS.search(ground.compiled.bodies[name])}
    assert len(written) >= 12
    missed = {
        point: statement
        for name in written
        for point, statement in ground.compiled.points[name].items()
        if point not in ground.passed and not WITHOUT_EFFECT.match(statement)
    }
    assert missed == {}, "\n".join(f"{point}: {statement}" for point, statement in missed.items())


def test_each_function_has_as_many_points_as_statements(ground: Ground) -> None:
    """Counted another way: what ends with a semicolon, less what only ends a block, and each head of a block."""
    assert len(ground.compiled.points) >= 30
    for name, points in ground.compiled.points.items():
        text = re.sub(r"--[^\n]*|'(?:[^']|'')*'", "", ground.compiled.bodies[name].lower()).partition("\nbegin")[2]
        ends = re.findall(r"\bend\s+(?:if|loop)\s*;", text)
        heads = re.findall(r"(?<!end )\b(?:if|loop)\b", text)
        assert len(points) == text.count(";") - len(ends) + len(heads), name


def test_a_function_in_sql_is_one_statement(ground: Ground) -> None:
    """Nothing lies between two statements where there is one."""
    assert ground.compiled.plain
    for name, body in ground.compiled.plain.items():
        assert ";" not in re.sub(r"--[^\n]*|'(?:[^']|'')*'", "", body).strip().rstrip(";"), name


SAMPLE = """
declare
    v_a text := 'begin;';
begin
    if (case when v_a = 'x' then 1 else 2 end) = 1 then  -- then;
        perform a();
    elsif v_a is null then
        return;
    else
        for v_a in select 1 for update loop
            exit when not found;
        end loop;
    end if;
    begin
        insert into t values ($x$;$x$);
    exception when others then
        raise;
    end;
    return case when true then 1 end;
end"""


def test_points_stand_before_each_statement_and_nowhere_else() -> None:
    changed, points = with_points("f", SAMPLE)
    assert list(points.values()) == [
        "if (case when v_a = 'x' then 1 else 2 end) = 1 then  -- then;",
        "perform a();",
        "return;",
        "for v_a in select 1 for update loop",
        "exit when not found;",
        "begin",
        "insert into t values ($x$;$x$);",
        "raise;",
        "return case when true then 1 end;",
    ]
    assert re.sub(r"assert fault\.point\('f\.\d+'\); ", "", changed) == SAMPLE


def test_a_statement_that_is_not_understood_is_said() -> None:
    with pytest.raises(NotUnderstood):
        with_points("f", "begin case v when 1 then perform a(); end case; end")
