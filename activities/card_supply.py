"""What a run fetches and stores: its order, its inputs, its results. All under the lease, all tried again."""

import asyncio
import base64
import hashlib
from pathlib import Path

import structlog

from activities import outcomes
from activities.card_desk import CardDesk
from infra.engines.port import OutputFile
from infra.hosts.client import ApiAway, ApiRefused, BytesWrong
from infra.hosts.journal import Entry
from infra.orders import OrderRefused
from workflows.contracts.generation import RunOutcome
from workflows.contracts.hosts import OrderRequest, RefusedOrder, StaleLease, UploadRequest, Work
from workflows.contracts.media import BlobRef

log = structlog.get_logger(__name__)


class TryAgain(Exception):
    """Nothing is decided: a part that is needed is away, or the agent is leaving. The next try attaches."""


async def fetch_order(desk: CardDesk, entry: Entry) -> Work | StaleLease:
    """Exchange the lease for its work.

    Raises:
        TryAgain: The API is away.
        OrderRefused: What came isn't signed for this lease.
    """
    request = OrderRequest(
        task_id=entry.task_id,
        lease_id=entry.lease_id,
        card_uuid=entry.card_uuid,
        fence=entry.fence,
        boot_id=desk.boot_id,
    )
    try:
        async with asyncio.timeout(desk.patience.api_s):
            await desk.owned.wait()
        return await desk.client.order(request, within_s=desk.patience.api_s)
    except (TimeoutError, ApiAway, ApiRefused) as error:
        raise TryAgain(f"no order: {error!r}") from error


async def prove_ownership(desk: CardDesk, entry: Entry) -> None:
    """Make sure that this agent owns the card. Of a run that another one began, the journal here knows nothing.

    Raises:
        TryAgain: Another agent owns the card, or the API, which would know, is away.
    """
    request = OrderRequest(
        task_id=entry.task_id,
        lease_id=entry.lease_id,
        card_uuid=entry.card_uuid,
        fence=entry.fence,
        boot_id=desk.boot_id,
        attach_only=True,
    )
    try:
        answer = await desk.client.order(request, within_s=desk.patience.api_s)
    except (ApiAway, ApiRefused) as error:
        raise TryAgain(f"not known whose card it is: {error!r}") from error
    except OrderRefused as refusal:
        note_refusal(desk, entry, refusal)
        raise TryAgain(f"not known whose card it is: {refusal}") from refusal
    if isinstance(answer, StaleLease) and answer.stray:
        raise TryAgain(answer.reason)


async def fetch_inputs(desk: CardDesk, work: Work, folder: Path) -> tuple[Path, ...]:
    """Fetch the inputs into the run's folder, in order; each is whole and verified.

    Raises:
        TryAgain: The store is away.
        BytesWrong: It served something else.
        OSError: The disk is full or failing.
    """
    paths = tuple(folder / f"input-{index}" for index in range(len(work.inputs)))
    await asyncio.to_thread(_lay_out, work, folder, paths)
    for item, path in zip(work.inputs, paths, strict=True):
        if item.inline is not None:
            continue
        try:
            await desk.client.download(item.source, item.image.blob, path, within_s=desk.patience.transfer_s)
        except (ApiAway, ApiRefused) as error:
            raise TryAgain(f"no input: {error!r}") from error
    return paths


def _lay_out(work: Work, folder: Path, paths: tuple[Path, ...]) -> None:
    """Make the folder, and write what came with the order, verified as if it had been fetched."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for item, path in zip(work.inputs, paths, strict=True):
        if item.inline is None:
            continue
        data, blob = base64.b64decode(item.inline), item.image.blob
        if hashlib.sha256(data).hexdigest() != blob.sha256:
            raise BytesWrong(f"other bytes than {blob.sha256[:12]} came with the order")
        path.write_bytes(data)


async def store_file(desk: CardDesk, entry: Entry, file: OutputFile) -> BlobRef | RunOutcome:
    """Store one finished file under a grant, for which the fence is checked again; else why it isn't delivered.

    Raises:
        TryAgain: The API or the store is away; the result stays with the engine.
    """
    blob = BlobRef(sha256=file.sha256, size=file.size, mime=file.mime)
    request = UploadRequest(
        task_id=entry.task_id,
        lease_id=entry.lease_id,
        fence=entry.fence,
        file=blob,
        index=file.index,
        card_uuid=entry.card_uuid,
        boot_id=desk.boot_id,
    )
    try:
        grant = await desk.client.grant_upload(request, within_s=desk.patience.api_s)
        if isinstance(grant, StaleLease) and grant.stray:
            raise TryAgain(grant.reason)
        if isinstance(grant, StaleLease):
            return outcomes.superseded(grant.reason, ran=True)
        if grant.target is not None:
            await desk.client.upload(grant.target, blob, file.path, within_s=desk.patience.transfer_s)
    except (ApiAway, ApiRefused) as error:
        raise TryAgain(f"not stored: {error!r}") from error
    except OrderRefused as refusal:
        note_refusal(desk, entry, refusal)
        raise TryAgain(f"not stored: {refusal}") from refusal
    return blob


def note_refusal(desk: CardDesk, entry: Entry, refusal: OrderRefused) -> None:
    """Say in the log, and from now on in the card's reports, that something was refused."""
    log.error(
        "order_refused", task_id=entry.task_id, fence=entry.fence, fault=refusal.fault.value, reason=refusal.reason
    )
    desk.refused_order = RefusedOrder(
        fault=refusal.fault,
        reason=refusal.reason,
        task_id=entry.task_id,
        fence=entry.fence,
        times=desk.refused_order.times + 1 if desk.refused_order else 1,
    )
