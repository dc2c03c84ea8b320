"""Receipts in the database: made from a generation's rows, kept as they were first issued."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from infra.db import Database, Reader, Row, load
from infra.receipts.document import document
from infra.signatures.keys import PublicKey, Signer
from workflows.contracts.generation import GenerationRequest
from workflows.contracts.message import Message
from workflows.contracts.prices import UNIT
from workflows.contracts.states import CreditStatus, Status

_QUERIES = load(__package__)
_KINDS = {"pending": "hold", "post": "settled", "void": "released"}


class NotOver(Exception):
    """The generation is not over, so nothing can be attested."""

    def __init__(self, operation_id: str, credit_status: CreditStatus) -> None:
        """What its owner may know of it."""
        super().__init__(operation_id)
        self.operation_id = operation_id
        self.credit_status = credit_status


class Receipt(Message):
    """A receipt as it was issued.

    Attributes:
        operation_id: Of its generation.
        credit_status: How that ended.
        document: The signed text, byte for byte the same each time.
    """

    operation_id: str
    credit_status: CreditStatus
    document: bytes


async def receipt(database: Database, signer: Signer, *, account_id: str, task_id: str) -> Receipt | None:
    """The receipt of an account's generation, issued now or before; None when there is no such generation.

    Raises:
        NotOver: Nothing is final yet.
    """
    async with database.read() as reader:
        row = await reader.one(_QUERIES["facts"], account_id=account_id, task_id=task_id)
    if row is None:
        return None
    credit_status = CreditStatus(row["credit_status"])
    if not Status(row["status"]).is_final:
        raise NotOver(row["operation_id"], credit_status)
    issued = row["document"]
    if issued is None:
        async with database.single_statement() as tx:
            issued = await tx.value(
                _QUERIES["keep"],
                task_id=task_id,
                late=row["late_at"] is not None,
                key_id=signer.public.id,
                public_key=signer.public.public_key,
                document=document(_payload(row), signer).decode(),
            )
    return Receipt(operation_id=row["operation_id"], credit_status=credit_status, document=issued.encode())


async def account_of(reader: Reader, task_id: str) -> str | None:
    """Whose generation it is, for operators."""
    found: str | None = await reader.value(_QUERIES["account_of"], task_id=task_id)
    return found


async def public_keys(reader: Reader, signer: Signer | None = None) -> tuple[PublicKey, ...]:
    """All keys that ever signed, and the one that signs now."""
    rows = await reader.all(_QUERIES["public_keys"])
    used = tuple(PublicKey.model_validate(row) for row in rows)
    if signer is None or signer.public.id in {key.id for key in used}:
        return used
    return (*used, signer.public)


def _payload(row: Row) -> dict[str, Any]:
    """Nothing here names a host, an engine, a prompt or an address; what isn't said of a generation stays null."""
    request = GenerationRequest.model_validate(row["request"])
    delivered = Status(row["status"]) is Status.COMPLETED
    return {
        "operation_id": row["operation_id"],
        "task_id": row["task_id"],
        "account_id": row["account_id"],
        "made_by": row["made_by"] or None,
        "body_sha256": request.fingerprint,
        "model": {
            "id": request.model.model_id,
            "mode": request.model.mode,
            "digest": request.model.digest,
            "graph_digest": None,
        },
        "inputs": [
            {"sha256": one.blob.sha256, "mime": one.blob.mime, "size": one.blob.size} for one in request.inputs
        ],
        "status": row["status"],
        "credit_status": row["credit_status"],
        "code": row["code"],
        "price": {
            "unit": request.price.unit if request.price else UNIT,
            "credits": row["price_credits"],
            "per_output": list(request.price.per_output) if request.price else None,
            "charged": row["charged_credits"],
        },
        "attempts": [_timed(one, "started_at", "ended_at") for one in row["attempts"]],
        "artifacts": row["artifacts"] if delivered else [],
        "refused": row["refused"],
        "postings": [_timed(one, "at") | {"kind": _KINDS[one["kind"]]} for one in row["postings"]],
        "times": {
            name: _iso(row[f"{name}_at"]) for name in ("created", "admitted", "started", "finished", "late")
        },
    }


def _timed(one: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """With its moments, which came as JSON, in the one spelling."""
    return {**one, **{name: _iso(datetime.fromisoformat(one[name])) if one[name] else None for name in names}}


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
