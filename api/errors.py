"""Every answer that isn't a success, in one shape. Statuses come from the table of verdicts, nowhere else."""

import math
import re
from collections.abc import Mapping
from http import HTTPStatus

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Route

from infra import metrics
from infra.db import DatabaseAway
from infra.storage.store import StoreAwayError
from infra.temporal.connection import TemporalNotConfiguredError
from infra.temporal.generations import TemporalAway
from workflows.contracts.failures import VERDICTS, Code, Failure, Severity

log = structlog.get_logger(__name__)

RETRY_AFTER_S: dict[Code, int] = {
    Code.TASK_NOT_FINISHED: 1,
    Code.OPERATION_IN_PROGRESS: 1,
    Code.RATE_LIMITED: 5,
    Code.QUOTA_EXCEEDED: 5,
    Code.QUEUE_FULL: 10,
    Code.MODEL_NOT_READY: 5,
    Code.SERVICE_UNAVAILABLE: 2,
    Code.GATEWAY_TIMEOUT: 2,
    Code.ADMISSION_LAPSED: 2,
}
"""Seconds for `Retry-After`, unless the failure knows better."""

_BY_STATUS = {
    HTTPStatus.NOT_FOUND: Code.RESOURCE_NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED: Code.METHOD_NOT_ALLOWED,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: Code.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: Code.PAYLOAD_TOO_LARGE,
}

_PARTS: dict[type[Exception], str] = {
    DatabaseAway: "database",
    TemporalAway: "workflow server",
    StoreAwayError: "object store",
}


class ApiError(Exception):
    """A failure on its way to the caller.

    Attributes:
        failure: Code, message, field.
        operation_id: Named in the body and in `x-ic-operation-id`.
        task_id: Named in the body.
        credit_status: For `x-ic-credit-status`.
        headers: More headers, as `Allow` or `Content-Range`.
    """

    def __init__(
        self,
        failure: Failure,
        *,
        operation_id: str | None = None,
        task_id: str | None = None,
        credit_status: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """The ids are known only once a task is being talked about."""
        super().__init__(failure.message)
        self.failure = failure
        self.operation_id = operation_id
        self.task_id = task_id
        self.credit_status = credit_status
        self.headers = dict(headers or {})


def refuse(code: Code, message: str, *, param: str | None = None, **about: str | None) -> ApiError:
    """An `ApiError` to raise; `about` holds operation and task id."""
    return ApiError(
        Failure(code=code, message=message, param=param),
        operation_id=about.get("operation_id"),
        task_id=about.get("task_id"),
    )


def body(failure: Failure, *, operation_id: str | None = None, task_id: str | None = None) -> dict[str, object]:
    """The one error object."""
    shown: dict[str, object] = {"code": failure.code.value, "message": failure.message}
    if failure.param is not None:
        shown["param"] = failure.param
    if failure.limit is not None:
        frees_in_s = None if failure.retry_after_s is None else math.ceil(failure.retry_after_s)
        shown["limit"] = failure.limit.model_dump() | {"frees_in_s": frees_in_s}
    if operation_id is not None:
        shown["operation_id"] = operation_id
    if task_id is not None:
        shown["task_id"] = task_id
    shown["retryable"] = VERDICTS[failure.code].retryable
    return shown


def response(error: ApiError, *, legacy_credit_status: bool = False) -> JSONResponse:
    """The whole answer for an error."""
    failure = error.failure
    verdict = VERDICTS[failure.code]
    metrics.count("api_errors", code=failure.code.value)
    status = verdict.http_status
    if legacy_credit_status and failure.code is Code.INSUFFICIENT_CREDITS:
        status = HTTPStatus.TOO_MANY_REQUESTS
    headers = dict(error.headers)
    retry_after = failure.retry_after_s
    if retry_after is None and failure.limit is None:  # a limit that never frees by itself says so by its absence
        retry_after = RETRY_AFTER_S.get(failure.code)
    if retry_after is not None and verdict.retryable:
        headers["Retry-After"] = str(max(1, round(retry_after)))
    if failure.code is Code.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = "Bearer"
    if error.operation_id is not None:
        headers["x-ic-operation-id"] = error.operation_id
    if error.credit_status is not None:
        headers["x-ic-credit-status"] = error.credit_status
    headers.setdefault("Cache-Control", "no-store")
    content = {"error": body(failure, operation_id=error.operation_id, task_id=error.task_id)}
    return JSONResponse(content, status_code=status, headers=headers)


def internal_error() -> ApiError:
    """For what nobody expected: says nothing but that it is ours."""
    return ApiError(Failure(code=Code.INTERNAL_ERROR, message="Something went wrong on our side."))


def away(part: str) -> ApiError:
    """A part that this call needs doesn't answer; `part` is a public word, as `database`."""
    message = f"The {part} is away for the moment. Try again; the same operation id never makes a second task."
    return ApiError(Failure(code=Code.SERVICE_UNAVAILABLE, message=message))


def install(app: FastAPI, *, legacy_credit_status: bool) -> None:
    """Give every error of the app, also the framework's own, the one shape."""

    def answer(request: Request, error: Exception) -> JSONResponse:
        shaped = _shape(request, error)
        verdict = VERDICTS[shaped.failure.code]
        if verdict.severity is not Severity.CALLER:
            log.warning(
                "request failed",
                code=shaped.failure.code.value,
                path=request.url.path,
                task_id=shaped.task_id,
                cause=type(error.__cause__ or error).__name__,
            )
        return response(shaped, legacy_credit_status=legacy_credit_status)

    for kind in (ApiError, HTTPException, RequestValidationError, TemporalNotConfiguredError, *_PARTS):
        app.add_exception_handler(kind, answer)


def _shape(request: Request, error: Exception) -> ApiError:
    for kind, part in _PARTS.items():
        if isinstance(error, kind):
            return away(part)
    match error:
        case ApiError():
            return error
        case TemporalNotConfiguredError():
            return refuse(Code.NOT_CONFIGURED, "The workflow server is not configured here.")
        case RequestValidationError():
            return _validation(error)
        case HTTPException():
            return _framework(request, error)
    return internal_error()


def _validation(error: RequestValidationError) -> ApiError:
    first = error.errors()[0]
    where = [str(part) for part in first["loc"] if part not in {"body", "query", "path", "header"}]
    param = ".".join(where) or None
    message = f"`{param}`: {first['msg']}." if param else f"The body doesn't fit: {first['msg']}."
    return refuse(Code.INVALID_REQUEST, message, param=param)


def _framework(request: Request, error: HTTPException) -> ApiError:
    code = _BY_STATUS.get(HTTPStatus(error.status_code))
    if code is Code.METHOD_NOT_ALLOWED:
        allow = ", ".join(_methods(request))
        message = f"{request.method} is not taken here; {allow} is."
        return ApiError(Failure(code=code, message=message), headers={"Allow": allow})
    if code is Code.RESOURCE_NOT_FOUND:
        return refuse(code, "No such resource.")
    if code is not None:
        return refuse(code, str(error.detail))
    if error.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
        return refuse(Code.INVALID_REQUEST, re.sub(r"\s+", " ", str(error.detail)))
    return internal_error()


def _methods(request: Request) -> list[str]:
    """Every method that some route takes at this path; the framework names only the first route's."""
    found: set[str] = set()
    for router in request.app.state.routers:
        for route in router.routes:
            if isinstance(route, Route) and route.path_regex.match(request.scope["path"]):
                found |= route.methods or set()
    return sorted(found)
