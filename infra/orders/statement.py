"""What is signed, byte for byte: the canonical form that who signs and who checks each make for themselves."""

import hashlib
from typing import Any

from infra.signatures.canonical import canonical
from workflows.contracts.hosts import SignedAddress, Warrant, Work
from workflows.contracts.media import BlobRef

FORMAT = "holdfast.warrant.v1"
"""Stands before the statement, so that a signature made for anything else never passes for one."""


def statement(warrant: Warrant) -> bytes:
    """The signed bytes of a warrant: all of it but its signature."""
    return f"{FORMAT}\n".encode() + canonical(warrant.model_dump(mode="json", exclude={"signature"}))


def work_digest(work: Work) -> str:
    """SHA-256 of what is to be run: parameters, the inputs' digests, outputs, limits.

    Left out are the inputs' addresses and bytes: whatever comes from there is checked against the digests. A
    member at its default is left out too: one that a newer API knows changes nothing until it says something.

    Raises:
        UncanonicalError: A parameter has no canonical form.
    """
    plain = work.model_dump(mode="json", exclude={"warrant", "inputs"}, exclude_defaults=True)
    plain["inputs"] = [item.image.model_dump(mode="json", exclude_defaults=True) for item in work.inputs]
    return _sha256(plain)


def upload_digest(file: BlobRef, index: int | None, target: SignedAddress | None) -> str:
    """SHA-256 of a permission to store: the file, its place among the outputs, and where it goes."""
    return _sha256(
        {
            "file": file.model_dump(mode="json"),
            "index": index,
            "target": None if target is None else target.model_dump(mode="json"),
        }
    )


def _sha256(value: Any) -> str:
    return hashlib.sha256(canonical(_without_fractions(value))).hexdigest()


def _without_fractions(value: Any) -> Any:
    """Fractions spelled exactly, since no two languages write them alike: 0.5 is {"fraction": "0x1.0p-1"}."""
    match value:
        case float():
            return {"fraction": value.hex()}
        case dict():
            return {name: _without_fractions(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_without_fractions(inner) for inner in value]
        case _:
            return value
