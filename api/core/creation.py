"""From a checked body to an admitted generation. Nothing is held before everything fits."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from api.core.arrival import Arrival
from api.core.claims import Claims, claim_and_store
from api.core.draft import Draft, plan_of
from api.core.operation import differing
from api.core.pictures import decoded_pictures, probed_pictures
from api.deadlines import READ, answer_within
from api.errors import ApiError, refuse
from api.parts import Parts
from infra import fleet, generations
from infra.db import DatabaseAway
from infra.generations import GenerationRecord, Preflight
from infra.temporal.generations import AdmissionUnanswered, TemporalAway
from workflows.contracts import ids, timeouts
from workflows.contracts.failures import Code
from workflows.contracts.generation import Admission, GenerationRequest
from workflows.contracts.states import AdmissionOutcome, CreditStatus
from workflows.domain.placement.capable import lacking
from workflows.domain.plan import ImageFacts, Plan, input_image, need_of

SECOND_LOOK = timedelta(milliseconds=500)
"""For reading, after an admission without an answer, whether its hold was taken all the same."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of one account, and the task that it names."""

    account_id: str
    operation_id: str

    @property
    def task_id(self) -> str:
        """The task's id."""
        return ids.task_id(self.account_id, self.operation_id)

    def about(self) -> dict[str, str]:
        """For errors: a caller that knows these can recover."""
        return {"operation_id": self.operation_id, "task_id": self.task_id}


async def create(parts: Parts, arrival: Arrival, draft: Draft) -> GenerationRecord:
    """Admit a generation, or find the one that the same operation made before.

    The record of another operation answers where this one asks for the same a moment later, and doesn't insist.

    Raises:
        ApiError: Refused, in conflict, or not answered in time; nothing is held later for who gave up.
    """
    account_id = arrival.caller.account_id
    operation = Operation(account_id, arrival.operation_id)
    known = arrival.preflight(draft.entry.manifest.id) or await _preflight(parts, operation, draft, arrival)
    if known.existing is not None and known.existing.generation_status is not None:
        record = await _record(parts, operation)
        _refuse_other_body(record, draft, operation)
        return record
    there = None if arrival.insists else known.duplicate_of(draft.fingerprint)
    if there is not None:
        return await _duplicate(parts, operation, draft, known, there)
    probed = await probed_pictures(
        parts.decoder, parts.known, account_id, draft.entry.manifest, draft.mode, draft.images
    )
    await _refuse_early(parts, draft, known, plan_of(draft, probed))
    facts, claims = await _take_in(parts, operation, draft, probed)
    request = _request(operation, draft, plan_of(draft, facts), facts, known, arrival)
    admission = await _admit(parts, operation, request, claims)
    if isinstance(admission, Admission) and _is_first_answer(admission, draft):
        # Reading it back would say no more.
        first = request.model_copy(update={"created_at": admission.created_at})
        return GenerationRecord.as_admitted(first, CreditStatus.HELD)
    return await _answer(parts, operation, draft, admission, claims)


async def _duplicate(
    parts: Parts, operation: Operation, draft: Draft, known: Preflight, there: str
) -> GenerationRecord:
    """The task that is there. The operation id keeps this answer."""
    if known.existing is None or known.existing.duplicate_of != there:
        async with answer_within(READ), parts.database.single_statement() as tx:
            await generations.answer_duplicate(
                tx,
                account_id=operation.account_id,
                operation_id=operation.operation_id,
                fingerprint=draft.fingerprint,
                fields=draft.fields,
                duplicate_of=there,
            )
    return await _record(parts, operation, there)


def _is_first_answer(admission: Admission, draft: Draft) -> bool:
    return (
        admission.outcome is AdmissionOutcome.HELD
        and admission.created_at is not None
        and admission.credit_status is CreditStatus.HELD
        and admission.fingerprint == draft.fingerprint
    )


async def _preflight(parts: Parts, operation: Operation, draft: Draft, arrival: Arrival) -> Preflight:
    async with answer_within(READ), parts.database.read() as reader:
        return await generations.preflight(
            reader,
            account_id=operation.account_id,
            operation_id=operation.operation_id,
            model_id=draft.entry.manifest.id,
            key_id=arrival.caller.key_id,
            duplicate_window_s=0 if arrival.insists else parts.settings.duplicate_window_s,
        )


async def _take_in(
    parts: Parts, operation: Operation, draft: Draft, probed: Sequence[ImageFacts]
) -> tuple[tuple[ImageFacts, ...], Claims]:
    """Decode the pictures while they are being stored: the one waits for a core, the other for a disk."""

    async def store() -> Claims:
        async with answer_within(READ, "object store"):
            return await claim_and_store(
                parts.database,
                parts.store,
                account_id=operation.account_id,
                operation_id=operation.operation_id,
                pictures=list(zip(draft.images, probed, strict=True)),
                sent_before=sent_before,
            )

    account_id = operation.account_id
    sent_before = frozenset(
        image.sha256 for image in draft.images if parts.known.facts(account_id, image.sha256) is not None
    )
    storing = asyncio.create_task(store())
    try:
        facts = await decoded_pictures(parts.decoder, parts.known, account_id, draft.images, probed)
    except BaseException:  # whatever ended the decoding, nothing needs the bytes
        await asyncio.shield(_undo(storing))
        raise
    claims = await storing
    for image, found in zip(draft.images, facts, strict=True):
        parts.known.remember(account_id, image.sha256, found)
    return facts, claims


async def _undo(storing: asyncio.Task[Claims]) -> None:
    await asyncio.wait({storing})
    if storing.exception() is None:
        await storing.result().release()


async def _refuse_early(parts: Parts, draft: Draft, known: Preflight, planned: Plan) -> None:
    """Refusals that need no workflow. The hold's own transaction decides again; a storm ends here."""
    manifest = draft.entry.manifest
    refusal = known.refusal(
        price_credits=planned.price_credits,
        in_flight_max=parts.settings.in_flight_max,
        queue_max=manifest.queue_max,
    )
    if refusal is not None:
        raise ApiError(refusal)
    async with answer_within(READ):
        ready = await parts.readiness.ready(draft.entry)
    if not ready:
        await _refuse_incapable(parts, draft)
        message = f"`{manifest.id}` is not ready: no card that is alive has passed its canary."
        raise refuse(Code.MODEL_NOT_READY, message, param="model")


async def _refuse_incapable(parts: Parts, draft: Draft) -> None:
    """A model that isn't ready may never be: then waiting for it is no use."""
    manifest = draft.entry.manifest
    async with answer_within(READ), parts.database.read() as reader:
        lacks = lacking(await fleet.known(reader), need_of(manifest))
    if lacks is not None:
        raise refuse(Code.NO_CAPABLE_CARD, f"No card can serve `{manifest.id}`: {lacks}.", param="model")


def _request(
    operation: Operation,
    draft: Draft,
    planned: Plan,
    facts: Sequence[ImageFacts],
    known: Preflight,
    arrival: Arrival,
) -> GenerationRequest:
    now = datetime.now(UTC)
    return GenerationRequest(
        task_id=operation.task_id,
        account_id=operation.account_id,
        operation_id=operation.operation_id,
        fingerprint=draft.fingerprint,
        fields=draft.fields,
        attempt=known.existing.attempt if known.existing is not None else 1,
        model=planned.snapshot,
        parameters=planned.parameters,
        inputs=tuple(input_image(image, file.sha256) for image, file in zip(facts, draft.images, strict=True)),
        outputs=planned.outputs,
        price_credits=planned.price_credits,
        price=planned.price,
        created_at=now,
        admit_by=now + known.clock_ahead + timeouts.ADMISSION,  # the database judges it
        expires_at=now + timedelta(seconds=planned.wait_s_max),
        made_by=arrival.caller.made_by,
        key_id=arrival.caller.key_id,
        allow_duplicate=arrival.insists,
    )


async def _admit(
    parts: Parts, operation: Operation, request: GenerationRequest, claims: Claims
) -> Admission | GenerationRecord:
    try:
        return await parts.generations.admit(request)
    except AdmissionUnanswered as error:
        found = await _second_look(parts, operation)
        if found is not None:
            return found
        parts.background.start(claims.release_later(), "release claims")
        message = (
            "No answer in time. The task may still have begun, or may not; nothing is held for it later. "
            "Ask for it, or repeat this call with the same operation id."
        )
        raise refuse(Code.GATEWAY_TIMEOUT, message, **operation.about()) from error
    except TemporalAway as error:
        parts.background.start(claims.release_later(), "release claims")
        message = "The workflow server is away for the moment. Repeat this call with the same operation id."
        raise refuse(Code.SERVICE_UNAVAILABLE, message, **operation.about()) from error
    except BaseException:  # also a caller that went away in the middle: what became of the hold isn't known
        parts.background.start(claims.release_later(), "release claims")
        raise


async def _second_look(parts: Parts, operation: Operation) -> GenerationRecord | None:
    """Whether the hold was taken though its answer was lost, as when the orchestrator died in between."""
    try:
        async with asyncio.timeout(SECOND_LOOK.total_seconds()), parts.database.read() as reader:
            return await generations.find(reader, account_id=operation.account_id, task_id=operation.task_id)
    except (TimeoutError, DatabaseAway):
        return None


async def _answer(
    parts: Parts, operation: Operation, draft: Draft, admission: Admission | GenerationRecord, claims: Claims
) -> GenerationRecord:
    if isinstance(admission, GenerationRecord):
        _refuse_other_body(admission, draft, operation)
        return admission
    same_body = admission.fingerprint == draft.fingerprint
    if admission.outcome is AdmissionOutcome.REFUSED or not same_body:
        await asyncio.shield(claims.release())
    if admission.outcome is AdmissionOutcome.REFUSED:
        if same_body and admission.duplicate_of is not None:
            return await _record(parts, operation, admission.duplicate_of)
        if same_body and admission.refusal is not None:
            raise ApiError(admission.refusal, operation_id=operation.operation_id)
        message = "The same operation id is being used with another body right now. Try again."
        raise refuse(Code.OPERATION_IN_PROGRESS, message, **operation.about())
    record = await _record(parts, operation)
    if not same_body:
        _refuse_other_body(record, draft, operation)
    return record


async def _record(parts: Parts, operation: Operation, task_id: str | None = None) -> GenerationRecord:
    """Of the operation's task, or of another of its account."""
    async with answer_within(READ), parts.database.read() as reader:
        record = await generations.find(
            reader, account_id=operation.account_id, task_id=task_id or operation.task_id
        )
    if record is None:
        message = "The same operation is being admitted. Ask again."
        raise refuse(Code.OPERATION_IN_PROGRESS, message, **operation.about())
    return record


def _refuse_other_body(record: GenerationRecord, draft: Draft, operation: Operation) -> None:
    names = differing(record.request.fields, draft.fields)
    if not names:
        return
    shown = ", ".join(f"`{name}`" for name in names)
    message = f"This operation id was used before with another body; different: {shown}. Use a new id for it."
    error = refuse(Code.OPERATION_CONFLICT, message, param=names[0], **operation.about())
    error.credit_status = record.credit_status.value
    raise error
