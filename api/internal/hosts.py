"""Orders, reports and upload permissions for hosts."""

import base64
from typing import TypeVar

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError

from api.bodies import read_json
from api.deadlines import READ, answer_within
from api.errors import refuse
from api.internal.token import from_host
from api.parts import Parts, parts_of
from infra import leases
from infra.orders import OrderSigner
from infra.storage import records, results
from infra.storage.store import BlobMissingError
from workflows.contracts.failures import Code
from workflows.contracts.generation import GenerationRequest
from workflows.contracts.hosts import (
    HostReport,
    OrderRequest,
    ReportTaken,
    StaleLease,
    UploadGrant,
    UploadRequest,
    Work,
    WorkInput,
)
from workflows.contracts.media import BlobRef
from workflows.contracts.message import Message

GET_S = 900
"""Seconds a host has to fetch its inputs; it fetches them right after the order."""
PUT_S = 900
INLINE_BYTES_MAX = 64 * 1024
"""An input up to this size comes with the order: reading it takes 0.3 ms, a call of the host's for it 2.5 ms."""
REPORT_BYTES_MAX = 1_048_576

M = TypeVar("M", bound=Message)
router = APIRouter(prefix="/internal/v1", dependencies=[Depends(from_host)], include_in_schema=False)


@router.post("/report")
async def report(request: Request) -> Response:
    """What a host's cards are and do."""
    message = await _message(request, HostReport)
    async with answer_within(READ), parts_of(request).database.single_statement() as tx:
        refused = await leases.record_report(tx, message)
    return _json(ReportTaken(refused=refused))


@router.post("/orders")
async def orders(request: Request) -> Response:
    """Exchange a current lease for the work, with fresh addresses of its inputs."""
    message = await _message(request, OrderRequest)
    parts = parts_of(request)
    signer = _signer(parts)
    async with answer_within(READ), parts.database.single_statement() as tx:
        order = await leases.open_order(tx, message)
    if isinstance(order, StaleLease):
        return _stale(order)
    work = await _work(parts, message, order)
    return _json(signer.signed_work(work, message, account_id=order.account_id))


@router.post("/uploads")
async def uploads(request: Request) -> Response:
    """Permission to store one finished file, for the holder of the current fence only."""
    message = await _message(request, UploadRequest)
    parts = parts_of(request)
    signer = _signer(parts)
    async with answer_within(READ), parts.database.transaction() as tx:
        stale = await leases.check_fence(
            tx,
            task_id=message.task_id,
            lease_id=message.lease_id,
            fence=message.fence,
            card_uuid=message.card_uuid,
            boot_id=message.boot_id,
        )
        if stale is not None:
            return _stale(stale)
        owner = await records.operation_of(tx, message.task_id)
        if owner is None:
            return _stale(StaleLease(reason="no such generation"))
        account_id, operation_id = owner
        await records.claim_upload(tx, message.file, account_id=account_id, operation_id=operation_id)
        if message.index is not None:
            await results.note_grant(
                tx,
                task_id=message.task_id,
                lease_id=message.lease_id,
                fence=message.fence,
                index=message.index,
                file=message.file,
            )
    is_there = await parts.store.head(message.file.sha256) == message.file.size
    grant = UploadGrant(target=None if is_there else await parts.store.sign_put(message.file, PUT_S))
    return _json(signer.signed_grant(grant, message, account_id=account_id))


def _signer(parts: Parts) -> OrderSigner:
    if parts.orders is None:
        raise refuse(Code.NOT_CONFIGURED, "Orders can't be signed here.")
    return parts.orders


async def _work(parts: Parts, message: OrderRequest, order: GenerationRequest) -> Work:
    inputs = [
        WorkInput(
            image=image,
            source=await parts.store.sign_get(image.blob, GET_S),
            inline=await _inline(parts, image.blob),
        )
        for image in order.inputs
    ]
    return Work(
        task_id=order.task_id,
        fence=message.fence,
        model_id=order.model.model_id,
        digest=order.model.digest,
        engine=order.model.engine,
        capability=order.model.capability,
        mode=order.model.mode,
        parameters=order.parameters,
        inputs=tuple(inputs),
        outputs=order.outputs,
        run_s_max=order.model.run_s_max,
    )


async def _inline(parts: Parts, blob: BlobRef) -> str | None:
    """The bytes, where they are few and no other machine has to be asked; the address tells of missing ones."""
    if not parts.store.is_local or blob.size > INLINE_BYTES_MAX:
        return None
    try:
        stream = await parts.store.open(blob.sha256)
    except BlobMissingError:
        return None
    return base64.b64encode(b"".join([chunk async for chunk in stream])).decode()


async def _message(request: Request, kind: type[M]) -> M:
    body = await read_json(request, bytes_max=REPORT_BYTES_MAX)
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        param = ".".join(str(part) for part in first["loc"])
        raise refuse(Code.INVALID_REQUEST, f"`{param}`: {first['msg']}.", param=param) from error


def _stale(stale: StaleLease) -> Response:
    return JSONResponse(stale.model_dump(mode="json"), status_code=409)


def _json(message: Message) -> Response:
    return Response(message.model_dump_json(), media_type="application/json")
