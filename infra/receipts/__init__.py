"""Receipts: what a generation was, what it made and what was paid, signed so that anybody can check it offline."""

from infra.receipts.document import FORMAT, VERSION, ReceiptRefusedError, document, verified
from infra.receipts.records import NotOver, Receipt, account_of, public_keys, receipt
from infra.signatures.canonical import UncanonicalError, canonical
from infra.signatures.keys import PublicKey, Signer, key_file, read_key_file

__all__ = [
    "FORMAT",
    "VERSION",
    "NotOver",
    "PublicKey",
    "Receipt",
    "ReceiptRefusedError",
    "Signer",
    "UncanonicalError",
    "account_of",
    "canonical",
    "document",
    "key_file",
    "public_keys",
    "read_key_file",
    "receipt",
    "verified",
]
