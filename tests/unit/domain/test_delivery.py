"""Of n outputs asked for: which are delivered, what is paid for them, and what is said of the others."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.generations import blob, request
from workflows.contracts.failures import Code
from workflows.contracts.generation import GenerationRequest, Inspection, RunOutcome
from workflows.contracts.media import Artifact, RefusedOutput
from workflows.contracts.prices import PriceTerms
from workflows.contracts.states import RunVerdict
from workflows.domain.delivery import NOT_GIVEN, Deliver, charge, collected, judged, partial

BLACK = RefusedOutput(index=0, code=Code.IMAGE_OUTPUT_LOCAL_BLACK_COLLAPSE, message="Black all over.")


def asked(*prices: int, terms: bool = True) -> GenerationRequest:
    (contract,) = request("acc").outputs
    made = request("acc", price=sum(prices), outputs=(contract,) * len(prices))
    return made.model_copy(update={"price": PriceTerms(per_output=prices) if terms else None})


def gave(*places: int, refused: tuple[RefusedOutput, ...] = ()) -> RunOutcome:
    files = tuple(blob(f"file {place} {order}") for order, place in enumerate(places))
    return RunOutcome(verdict=RunVerdict.FINISHED, files=files, indices=places, refused=refused)


def inspection(good: list[int], refused: list[int]) -> Inspection:
    return Inspection(
        artifacts=tuple(
            Artifact(index=place, role="image", blob=blob(f"{place}"), width=1, height=1) for place in good
        ),
        refused=tuple(BLACK.model_copy(update={"index": place}) for place in refused),
    )


def test_files_without_places_are_the_outputs_in_order() -> None:
    outcome = gave(0, 1).model_copy(update={"indices": ()})
    assert collected(outcome, 2) == Deliver(outcome.files)
    short = collected(outcome, 3)
    assert (short.places, [one.index for one in short.refused]) == ((0, 1), [2])


def test_what_nobody_asked_for_is_left_out_and_counted() -> None:
    outcome = gave(2, 0, 0, 7, -1)
    delivery = collected(outcome, 3)
    assert delivery.places == (0, 2)
    assert delivery.files == (outcome.files[1], outcome.files[0])
    assert delivery.surplus == 3
    assert [(one.index, one.message) for one in delivery.refused] == [(1, NOT_GIVEN)]


def test_a_reason_that_the_host_gave_is_kept() -> None:
    said = BLACK.model_copy(update={"index": 1})
    assert collected(gave(0, 2, refused=(said,)), 3).refused == (said,)


def test_the_good_are_numbered_anew_and_the_others_keep_their_place() -> None:
    delivery = collected(gave(1, 2, 3), 4)
    artifacts, kept = judged(delivery, inspection(good=[0, 2], refused=[1]))
    assert [artifact.index for artifact in artifacts] == [0, 1]
    assert kept.places == (1, 3)
    assert [(one.index, one.code) for one in kept.refused] == [
        (0, Code.MEDIA_VALIDATION_FAILED),
        (2, BLACK.code),
    ]
    assert charge(asked(1, 20, 300, 4_000), kept.places) == 4_020
    short = partial(asked(1, 20, 300, 4_000), kept)
    assert short is not None
    assert (short.asked, short.delivered, short.refused) == (4, 2, kept.refused)


def test_a_whole_delivery_is_no_partial_one_and_costs_the_price() -> None:
    artifacts, kept = judged(collected(gave(0, 1), 2), inspection(good=[0, 1], refused=[]))
    assert partial(asked(5, 6), kept) is None
    assert charge(asked(5, 6), kept.places) == 11
    assert len(artifacts) == 2


def test_before_there_were_terms_each_output_pays_alike() -> None:
    assert charge(asked(5, 5, 5, terms=False), [0, 2]) == 10
    assert charge(asked(5, terms=False), [0]) == 5


@given(st.lists(st.integers(0, 10**8), min_size=1, max_size=8), st.data())
def test_never_more_than_the_hold_is_charged_whatever_the_engine_made(
    prices: list[int], data: st.DataObject
) -> None:
    wanted = asked(*prices)
    n = len(prices)
    places = data.draw(st.lists(st.integers(-2, n + 2), max_size=12))
    delivery = collected(gave(*places), n)
    good = data.draw(st.sets(st.sampled_from(range(len(delivery.files))))) if delivery.files else set()
    rest = [place for place in range(len(delivery.files)) if place not in good]
    artifacts, kept = judged(delivery, inspection(good=sorted(good), refused=rest))
    paid = charge(wanted, kept.places)
    assert 0 <= paid <= wanted.price_credits
    assert paid == sum(prices[place] for place in kept.places)
    assert len(artifacts) == len(kept.files) == len(kept.places) <= n
    assert sorted([*kept.places, *(one.index for one in kept.refused)]) == list(range(n))
    assert delivery.surplus == len(places) - len(delivery.files)
