"""What a creation would cost, before it: judged by the very code that judges a creation, holding nothing."""

from collections.abc import Mapping
from typing import Any

from api.auth.caller import Caller
from api.core.draft import IMAGE_FIELDS, draft, plan_of
from api.deadlines import READ, answer_within
from api.errors import refuse
from api.parts import Parts
from api.uploads.multipart import FIELDS_MAX, FILES_MAX, Form
from infra import generations
from workflows.contracts.failures import Code
from workflows.domain.manifest import Manifest
from workflows.domain.plan import ImageFacts

SIZES_FIELD = "images"
"""Stands for a creation's files: `[{"width", "height"}]`, upright, in order."""
PIXELS_MAX = 2**31 - 1
"""Of a side; far above any model's limit, whose refusal says more."""
_SIDES = ("width", "height")


async def quote(parts: Parts, caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]:
    """The price with its reasons, and whether the account could pay it now.

    Raises:
        ApiError: What doesn't fit, in the words that a creation would use.
    """
    asked = draft(parts.catalog, Form(fields=_fields(body), files=()))
    manifest = asked.entry.manifest
    planned = plan_of(asked, _pictures(manifest, body.get(SIZES_FIELD, [])))
    async with answer_within(READ), parts.database.read() as reader:
        account = await generations.preflight(
            reader, account_id=caller.account_id, operation_id="", model_id=manifest.id
        )
    terms = planned.price
    return {
        "model": manifest.id,
        "mode": planned.snapshot.mode,
        "unit": terms.unit,
        "price": terms.total,
        "per_output": list(terms.per_output),
        "lines": [line.model_dump(mode="json") | {"credits": line.credits} for line in terms.lines],
        "available": account.available_credits,
        "affordable": not account.frozen and account.available_credits >= terms.total,
    }


def _fields(body: Mapping[str, Any]) -> dict[str, str]:
    """The text fields of the form that the same creation would send."""
    fields: dict[str, str] = {}
    for name, value in body.items():
        if name == SIZES_FIELD:
            continue
        if name in IMAGE_FIELDS:
            message = f"A quote takes no files; say their sizes in `{SIZES_FIELD}`."
            raise refuse(Code.INVALID_REQUEST, message, param=name)
        if not isinstance(value, str | int | float):
            raise refuse(Code.INVALID_REQUEST, f"`{name}` must be text, a number, or true or false.", param=name)
        fields[name] = ("true" if value else "false") if isinstance(value, bool) else str(value)
    if len(fields) > FIELDS_MAX:
        raise refuse(Code.INVALID_REQUEST, f"There are {len(fields)} fields; the limit is {FIELDS_MAX}.")
    return fields


def _pictures(manifest: Manifest, sizes: Any) -> list[ImageFacts]:
    """Pictures of which no more is known than their sizes, as good ones that the model takes."""
    if not isinstance(sizes, list) or len(sizes) > FILES_MAX:
        message = f"`{SIZES_FIELD}` is a list of at most {FILES_MAX} sizes."
        raise refuse(Code.INVALID_REQUEST, message, param=SIZES_FIELD)
    mime = next(iter(manifest.images.mimes), "")
    return [ImageFacts(mime, 1, *_size(one, place), frames=1, has_alpha=False) for place, one in enumerate(sizes)]


def _size(one: Any, place: int) -> tuple[int, int]:
    if isinstance(one, dict) and set(one) == set(_SIDES):
        width, height = (one[side] for side in _SIDES)
        if all(type(side) is int and 0 < side <= PIXELS_MAX for side in (width, height)):
            return width, height
    message = f"`{SIZES_FIELD}[{place}]` is `{{width, height}}` in whole pixels, each at least 1."
    raise refuse(Code.INVALID_REQUEST, message, param=f"{SIZES_FIELD}[{place}]")
