"""Which of the outputs asked for are delivered, what of that is paid, and what is said of the others. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from workflows.contracts.failures import Code
from workflows.contracts.generation import GenerationRequest, Inspection, RunOutcome
from workflows.contracts.media import Artifact, BlobRef, MediaContract, Partial, RefusedOutput

NOT_GIVEN = "The engine gave no such output."


@dataclass(frozen=True, slots=True)
class Deliver:
    """The run finished: judge, keep and settle these files.

    Attributes:
        files: One for each of `indices`; nothing that wasn't asked for.
        indices: Their places among the outputs asked for; empty where the files are all of them, in order.
        refused: Outputs that aren't among the files, and why.
        surplus: Files that nobody asked for, or a second one for the same place: neither kept nor paid.
    """

    files: tuple[BlobRef, ...]
    indices: tuple[int, ...] = ()
    refused: tuple[RefusedOutput, ...] = ()
    surplus: int = 0

    @property
    def places(self) -> tuple[int, ...]:
        """For each file its place among the outputs asked for."""
        return self.indices or tuple(range(len(self.files)))

    def contracts(self, asked: Sequence[MediaContract]) -> tuple[MediaContract, ...]:
        """For each file what it must be."""
        return tuple(asked[place] for place in self.places)


def collected(outcome: RunOutcome, asked: int) -> Deliver:
    """What a finished run gave of `asked` outputs; the first file for a place counts."""
    named = outcome.indices or tuple(range(len(outcome.files)))
    found: dict[int, BlobRef] = {}
    for place, file in zip(named, outcome.files, strict=False):  # a host's word: what doesn't pair up is surplus
        if 0 <= place < asked:
            found.setdefault(place, file)
    said = {one.index: one for one in outcome.refused}
    places = tuple(sorted(found))
    return Deliver(
        files=tuple(found[place] for place in places),
        indices=() if len(places) == asked else places,
        refused=tuple(said.get(place, _missing(place)) for place in range(asked) if place not in found),
        surplus=len(outcome.files) - len(places),
    )


def judged(delivery: Deliver, inspection: Inspection) -> tuple[tuple[Artifact, ...], Deliver]:
    """The artifacts to keep, numbered anew from 0, and the delivery of these alone."""
    files, places = delivery.files, delivery.places
    good = sorted(inspection.artifacts, key=lambda one: one.index)
    refused = {one.index: one for one in delivery.refused}
    for one in inspection.refused:
        refused[places[one.index]] = one.model_copy(update={"index": places[one.index]})
    kept = replace(
        delivery,
        files=tuple(files[one.index] for one in good),
        indices=tuple(places[one.index] for one in good),
        refused=tuple(refused[place] for place in sorted(refused)),
    )
    return tuple(one.model_copy(update={"index": place}) for place, one in enumerate(good)), kept


def charge(request: GenerationRequest, delivered: Collection[int]) -> int:
    """What is paid for the outputs delivered, by their place among those asked for; never more than is held.

    A request of before there were terms pays for each output alike.
    """
    asked = len(request.outputs)
    places = {place for place in delivered if 0 <= place < asked}
    if request.price is None or len(request.price.per_output) != asked:
        return request.price_credits * len(places) // asked if asked else 0
    return min(request.price_credits, sum(request.price.per_output[place] for place in places))


def partial(request: GenerationRequest, delivery: Deliver) -> Partial | None:
    """What to say of a delivery that isn't whole; None of one that is."""
    asked = len(request.outputs)
    if len(delivery.files) >= asked:
        return None
    return Partial(asked=asked, delivered=len(delivery.files), refused=delivery.refused)


def summary(request: GenerationRequest, delivery: Deliver) -> str:
    """One line for the story."""
    short = partial(request, delivery)
    if short is None:
        return "the result is as promised"
    return f"{short.delivered} of {short.asked} outputs are as promised; the others are not paid"


def _missing(place: int) -> RefusedOutput:
    return RefusedOutput(index=place, code=Code.MEDIA_VALIDATION_FAILED, message=NOT_GIVEN)
