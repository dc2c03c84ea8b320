"""A receipt's text: a payload and the signature over its canonical bytes.

    {"payload": {"format": "holdfast.receipt", "version": 1, …},
     "signature": {"algorithm": "Ed25519", "key_id": "…", "value": "…"}}

Signed are the bytes `holdfast.receipt.v1`, a line feed, and the canonical payload: a signature made for anything
else never passes for one of these.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from infra.signatures.canonical import UncanonicalError, canonical, parsed
from infra.signatures.keys import ALGORITHM, PublicKey, Signer, decoded, encoded

FORMAT = "holdfast.receipt"
VERSION = 1
BYTES_MAX = 1_048_576
"""A receipt has some thousand bytes; more is read by nobody."""
_MEMBERS = frozenset(("payload", "signature"))
_SIGNATURE_MEMBERS = frozenset(("algorithm", "key_id", "value"))


class ReceiptRefusedError(Exception):
    """The receipt proves nothing, and why."""


def document(payload: Mapping[str, Any], signer: Signer) -> bytes:
    """The signed receipt of a payload, in canonical form: the same payload and key give the same bytes.

    Raises:
        UncanonicalError: the payload has no canonical form.
    """
    whole = dict(payload) | {"format": FORMAT, "version": VERSION}
    signature = {
        "algorithm": ALGORITHM,
        "key_id": signer.public.id,
        "value": encoded(signer.sign(_message(whole))),
    }
    return canonical({"payload": whole, "signature": signature})


def verified(text: bytes, keys: Iterable[PublicKey]) -> dict[str, Any]:
    """The payload of a receipt that one of `keys` signed, just so. White space and the order of members are free.

    Raises:
        ReceiptRefusedError: it proves nothing; the message says why.
    """
    if len(text) > BYTES_MAX:
        raise ReceiptRefusedError(f"It has over {BYTES_MAX} bytes; no receipt is so large.")
    try:
        found = parsed(text)
    except UncanonicalError as error:
        raise ReceiptRefusedError(f"It is no receipt: {error}.") from error
    if not isinstance(found, dict) or found.keys() != _MEMBERS:
        raise ReceiptRefusedError("It is no receipt: it needs `payload` and `signature`, and nothing else.")
    payload, signature = found["payload"], found["signature"]
    if not isinstance(payload, dict) or payload.get("format") != FORMAT:
        raise ReceiptRefusedError(f"It is no receipt: its payload's `format` is not `{FORMAT}`.")
    version = payload.get("version")
    if version != VERSION or isinstance(version, bool):
        raise ReceiptRefusedError(f"Its version is {version!r}; this program knows {VERSION}.")
    _check(payload, signature, {key.id: key for key in keys})
    return payload


def _check(payload: dict[str, Any], signature: object, keys: Mapping[str, PublicKey]) -> None:
    if not isinstance(signature, dict) or signature.keys() != _SIGNATURE_MEMBERS:
        raise ReceiptRefusedError("Its signature needs `algorithm`, `key_id` and `value`, and nothing else.")
    if signature["algorithm"] != ALGORITHM:
        raise ReceiptRefusedError(f"It is signed by {signature['algorithm']!r}; this program knows {ALGORITHM}.")
    key_id = signature["key_id"]
    key = keys.get(key_id) if isinstance(key_id, str) else None
    if key is None:
        raise ReceiptRefusedError(f"It is signed by the key {key_id!r}, which is not among the {len(keys)} known.")
    try:
        value = decoded(signature["value"]) if isinstance(signature["value"], str) else b""
        good = key.signed(value, _message(payload))
    except ValueError:  # neither base64 nor canonical: nobody signed that
        good = False
    if not good:
        raise ReceiptRefusedError("The signature is not that of this payload: something in it was changed.")


def _message(payload: Mapping[str, Any]) -> bytes:
    return f"{FORMAT}.v{VERSION}\n".encode() + canonical(dict(payload))
