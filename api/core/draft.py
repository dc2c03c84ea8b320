"""A creation as it was sent: read from a form, its model found, its body canonical; nothing judged yet."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from api.core.operation import fingerprint
from api.errors import ApiError, refuse
from api.uploads.multipart import Form, UploadedFile
from infra.catalog import Catalog, CatalogEntry
from workflows.contracts.failures import Code, Failure
from workflows.domain.manifest import Manifest
from workflows.domain.parameters import canonical_parameter
from workflows.domain.plan import IMAGE_FIELD, ImageFacts, Plan, plan

IMAGE_FIELDS = frozenset({IMAGE_FIELD, f"{IMAGE_FIELD}[]"})
"""The official client of a well-known API sends a list under the second name."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What the caller asks for.

    Attributes:
        entry: The model.
        mode: As asked; None means its default.
        parameters: As sent.
        images: In the order sent.
        fields: The canonical body: each value, or the digest of a file or of free text.
        fingerprint: SHA-256 over `fields`.
    """

    entry: CatalogEntry
    mode: str | None
    parameters: dict[str, str]
    images: tuple[UploadedFile, ...]
    fields: dict[str, str]
    fingerprint: str


def draft(catalog: Catalog, form: Form) -> Draft:
    """Make sense of a form.

    Raises:
        ApiError: 400 without a model or with a file where none is taken; 404 for a model that isn't there.
    """
    name = form.fields.get("model")
    if name is None:
        raise refuse(Code.INVALID_REQUEST, "`model` is required.", param="model")
    entry = catalog.find(name)
    if entry is None:
        raise refuse(Code.MODEL_NOT_FOUND, "No such model.", param="model")
    for file in form.files:
        if file.field not in IMAGE_FIELDS:
            message = f"`{file.field}` is a file that this model doesn't take; it takes `{IMAGE_FIELD}`."
            raise refuse(Code.INVALID_REQUEST, message, param=file.field)
    if not IMAGE_FIELDS.isdisjoint(form.fields):
        message = f"`{IMAGE_FIELD}` must be a file with its image/* type."
        raise refuse(Code.INVALID_MEDIA_TYPE, message, param=IMAGE_FIELD)
    mode = form.fields.get("mode")
    parameters = {key: value for key, value in form.fields.items() if key not in {"model", "mode"}}
    fields = _fields(entry.manifest, mode, parameters, form.files)
    return Draft(entry, mode, parameters, form.files, fields, fingerprint(fields))


def plan_of(draft: Draft, facts: Sequence[ImageFacts]) -> Plan:
    """What the draft comes to with these pictures. A creation and a quote ask here, so that they can't differ.

    Raises:
        ApiError: The first thing that doesn't fit.
    """
    found = plan(
        draft.entry.manifest,
        digest=draft.entry.digest,
        mode=draft.mode,
        parameters=draft.parameters,
        inputs=facts,
    )
    if isinstance(found, Failure):
        raise ApiError(found)
    return found


def _fields(
    manifest: Manifest, mode: str | None, parameters: dict[str, str], images: tuple[UploadedFile, ...]
) -> dict[str, str]:
    fields = {"model": manifest.id}
    if mode is not None:
        fields["mode"] = mode
    for name, raw in parameters.items():
        spec = manifest.parameters.get(name)
        value = canonical_parameter(spec, raw)
        free_text = spec is None or (spec.type == "string" and spec.choices is None)
        # Free text is personal: only its digest goes into histories and comparisons.
        fields[name] = f"sha256:{hashlib.sha256(value.encode()).hexdigest()}" if free_text else value
    for place, image in enumerate(images):
        fields[f"{IMAGE_FIELD}[{place}]"] = image.sha256
    return fields
