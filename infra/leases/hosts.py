"""What hosts report and ask: their cards, the order behind a lease, the right to deliver."""

from infra.db import Reader, Tx, load
from workflows.contracts import timeouts
from workflows.contracts.generation import GenerationRequest
from workflows.contracts.hosts import ClaimRefused, HostReport, OrderRequest, StaleLease

_QUERIES = load(__package__)


async def record_report(tx: Tx, report: HostReport) -> tuple[ClaimRefused, ...]:
    """Take a host's word on its cards; wakes placement when one became free. One statement.

    A card belongs to the host that reports it, and there to the agent that appeared last. What others say about it
    is refused, which is answered and kept, until its host has been silent for `timeouts.HOST_GONE`.
    """
    refused = await tx.value(
        _QUERIES["report"],
        report=report.model_dump_json(),
        fresh=timeouts.REPORT_FRESH,
        gone=timeouts.HOST_GONE,
    )
    return tuple(ClaimRefused.model_validate(each) for each in refused)


async def open_order(tx: Tx, request: OrderRequest) -> GenerationRequest | StaleLease:
    """Exchange a lease for the request behind it. One statement.

    To start, the lease must be accepted and open, its fence the card's newest, and the asking agent the card's
    owner; the fetch is recorded, the generation runs from here on, and the card counts as dirty until its host
    says that this fence is over. With `attach_only` nothing is recorded, and a lease parked while the outcome
    is unknown is good as well, as long as the generation has no newer one.
    """
    answer = await tx.value(
        _QUERIES["open_order"],
        task_id=request.task_id,
        lease_id=request.lease_id,
        card_uuid=request.card_uuid,
        fence=request.fence,
        boot_id=request.boot_id,
        attach_only=request.attach_only,
    )
    if "stale" in answer:
        return StaleLease(reason=answer["stale"], stray=answer["stray"])
    return GenerationRequest.model_validate(answer["request"])


async def check_fence(
    reader: Reader, *, task_id: str, lease_id: str, fence: int, card_uuid: str = "", boot_id: str = ""
) -> StaleLease | None:
    """None when a host may deliver under this lease; otherwise why not.

    Where it names its card and its boot, the lease must be of that card, and the card its agent's.
    """
    stale = await reader.value(
        _QUERIES["stale_lease"],
        task_id=task_id,
        lease_id=lease_id,
        fence=fence,
        card_uuid=card_uuid,
        boot_id=boot_id,
    )
    return None if stale is None else StaleLease.model_validate(stale)
