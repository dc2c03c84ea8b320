"""The demo outlasts a part's restart, and gives up at once where waiting doesn't help."""

from collections.abc import Callable

import httpx
import pytest
import typer

from infra.db import DatabaseAway
from workers.cli.patience import PAUSE_MAX_S, NotNow, good, patiently

Script = list[httpx.Response | Exception]


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses that were taken; none lasts."""
    pauses: list[float] = []
    monkeypatch.setattr("workers.cli.patience.time.sleep", pauses.append)
    return pauses


def refusal(status: int, code: str, *, retryable: bool, after: str | None = None) -> httpx.Response:
    """An error in the platform's shape."""
    error = {"code": code, "message": f"It is {code}.", "retryable": retryable}
    return httpx.Response(status, json={"error": error}, headers={"Retry-After": after} if after else {})


def asking(script: Script) -> Callable[[], dict[str, object]]:
    """A call that meets one thing of the script each time."""

    def serve(request: httpx.Request) -> httpx.Response:
        met = script.pop(0)
        if isinstance(met, Exception):
            raise met
        return met

    client = httpx.Client(transport=httpx.MockTransport(serve), base_url="http://api")
    return lambda: good(client.post("/tasks", json={}))


def test_a_restarted_api_is_asked_again() -> None:
    script: Script = [
        httpx.ConnectError("refused"),
        httpx.ReadError("reset"),
        refusal(503, "service_unavailable", retryable=True),
        refusal(504, "gateway_timeout", retryable=True),
        refusal(409, "operation_in_progress", retryable=True),
        httpx.Response(202, json={"id": "gen_1"}),
    ]
    assert patiently(asking(script)) == {"id": "gen_1"}
    assert script == []


def test_the_wait_is_what_the_platform_asks_for_within_bounds(slept: list[float]) -> None:
    script: Script = [
        refusal(503, "service_unavailable", retryable=True, after="2"),
        refusal(503, "service_unavailable", retryable=True, after="3600"),
        httpx.Response(200, json={}),
    ]
    patiently(asking(script))
    assert slept == [2.0, PAUSE_MAX_S]


@pytest.mark.parametrize(
    "answer",
    [
        refusal(402, "insufficient_credits", retryable=True),
        refusal(400, "invalid_media", retryable=False),
        refusal(409, "operation_conflict", retryable=False),
        httpx.Response(502, text="<html>a proxy of somebody's</html>"),
    ],
)
def test_what_waiting_does_not_mend_ends_the_command(answer: httpx.Response) -> None:
    script: Script = [answer]
    with pytest.raises(typer.Exit) as ended:
        patiently(asking(script))
    assert ended.value.exit_code == 1
    assert script == []


def test_a_database_that_is_away_is_asked_again() -> None:
    meets: list[DatabaseAway | int] = [DatabaseAway(), 7]

    def look() -> int:
        met = meets.pop(0)
        if isinstance(met, DatabaseAway):
            raise met
        return met

    assert patiently(look) == 7


def test_a_part_that_stays_away_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    def never() -> None:
        raise NotNow("the workflow server is away", after_s=1)

    with pytest.raises(typer.Exit):
        patiently(never, within_s=0)
    assert "the workflow server is away" in capsys.readouterr().err
