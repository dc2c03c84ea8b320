"""Ed25519 signatures over one spelling of a value: of receipts, and of what hosts are told to do.

It knows no database, since a card's host checks by it.
"""
