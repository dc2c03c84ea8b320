"""Receipts: what a generation was, what it made and what was paid, signed so that anybody can check it offline."""

from infra.receipts.canonical import UncanonicalError, canonical
from infra.receipts.document import FORMAT, VERSION, ReceiptRefusedError, document, verified
from infra.receipts.keys import PublicKey, Signer, key_file, read_key_file
from infra.receipts.records import NotOver, Receipt, account_of, public_keys, receipt

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
