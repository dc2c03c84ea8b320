"""Receipts as clients fetch them."""

import re

from fastapi.responses import Response

from api.auth.caller import Caller
from api.deadlines import READ, answer_within
from api.errors import refuse
from api.parts import Parts
from infra import receipts
from infra.receipts import NotOver, Signer
from workflows.contracts.failures import Code

_TASK_ID = re.compile(r"[0-9a-z_]{1,64}")


async def serve(parts: Parts, caller: Caller, task_id: str) -> Response:
    """The receipt of the caller's task, the same bytes each time.

    Raises:
        ApiError: 404, the same for a task that doesn't exist and for a stranger's; 409 before the end; 503 where
            no key was given to sign with.
    """
    signer = signer_of(parts)
    found = None
    if _TASK_ID.fullmatch(task_id):
        try:
            async with answer_within(READ):
                found = await receipts.receipt(
                    parts.database, signer, account_id=caller.account_id, task_id=task_id
                )
        except NotOver as error:
            message = "The task has no receipt before its end."
            early = refuse(Code.TASK_NOT_FINISHED, message, operation_id=error.operation_id, task_id=task_id)
            early.credit_status = error.credit_status.value
            raise early from error
    if found is None:
        raise refuse(Code.TASK_NOT_FOUND, "No such task.")
    headers = {
        "x-ic-operation-id": found.operation_id,
        "x-ic-credit-status": found.credit_status.value,
        "Cache-Control": "private, no-cache",
    }
    return Response(found.document, headers=headers, media_type="application/json")


def signer_of(parts: Parts) -> Signer:
    """The key that signs.

    Raises:
        ApiError: 503 where there is none.
    """
    if parts.signer is None:
        raise refuse(Code.NOT_CONFIGURED, "Receipts are not configured here.")
    return parts.signer
