"""Signed orders: the API signs what a host is told to do, and the host does nothing that isn't.

Signed is a `Warrant`: whose work it is, which card, lease and fence may do it, until when, to which very question
it is the answer, and a digest of the work or of the file. Nothing here knows a database: hosts check by it.
"""

from infra.orders.checking import OrderKeys, OrderRefused
from infra.orders.signing import OrderSigner, owner_of

__all__ = ["OrderKeys", "OrderRefused", "OrderSigner", "owner_of"]
