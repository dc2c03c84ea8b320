"""What a host says from its journal alone, and what a journal that was lost can't say."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from temporalio.testing import ActivityEnvironment

from activities.engine import EngineActivities
from activities.journal import JournalActivities
from infra.engines.fake.engine import FakeEngine
from tests.integration.hosts.conftest import MakeDesk
from tests.support.internal_api import order
from workflows.contracts.states import RunVerdict


async def test_a_run_that_is_over_is_answered_from_the_journal_whatever_the_card_does(make_desk: MakeDesk) -> None:
    desk = make_desk()
    looks = JournalActivities(desk)
    assert await looks.look_in_journal(order(attach_only=True)) is None, "it never began here"
    outcome = await ActivityEnvironment().run(EngineActivities(desk).run_on_card, order())
    assert outcome.verdict is RunVerdict.FINISHED
    assert await looks.look_in_journal(order(attach_only=True)) == outcome
    assert await looks.look_in_journal(order(fence=2, attach_only=True)) is None, "another lease's"


async def test_a_journal_lost_after_the_order_proves_nothing_to_a_look_that_comes_later(
    make_desk: MakeDesk, tmp_path: Path
) -> None:
    """The look is scheduled after the loss; what counts is when its run was ordered."""
    before = datetime.now(UTC) - timedelta(minutes=1)
    (tmp_path / "journal.db").write_bytes(b"no journal at all, and long enough to be read as one" * 100)
    desk = make_desk(engine=FakeEngine(keeps_records=False))
    look = order(attach_only=True)
    said = await ActivityEnvironment().run(
        EngineActivities(desk).run_on_card, look.model_copy(update={"ordered_at": before})
    )
    assert said.verdict is RunVerdict.UNKNOWN
    later = look.model_copy(update={"ordered_at": datetime.now(UTC) + timedelta(minutes=1), "fence": 2})
    said = await ActivityEnvironment().run(EngineActivities(desk).run_on_card, later)
    assert (said.verdict, said.may_have_run) == (RunVerdict.FAILED, False), "the new journal would know of it"
