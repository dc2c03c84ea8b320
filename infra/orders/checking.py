"""The host's side: what isn't signed for just this is refused, by name."""

import time
from collections.abc import Callable

from infra.orders.statement import statement, upload_digest, work_digest
from infra.signatures.canonical import UncanonicalError
from infra.signatures.keys import PublicKey, decoded
from workflows.contracts.hosts import (
    OrderFault,
    OrderRequest,
    Purpose,
    UploadGrant,
    UploadRequest,
    Warrant,
    Work,
)

KEYS_MAX = 2
"""The one that signs, and while keys are changed the one before or after it."""


class OrderRefused(Exception):
    """What came must not be acted on."""

    def __init__(self, fault: OrderFault, reason: str) -> None:
        """The fault's name, and a sentence for operators."""
        super().__init__(f"{fault.value}: {reason}")
        self.fault = fault
        self.reason = reason


class OrderKeys:
    """The public keys that a host was given. Without any, everything is refused."""

    def __init__(self, public_keys: tuple[str, ...], *, now: Callable[[], float] = time.time) -> None:
        """Take the keys, each 32 bytes in URL-safe base64.

        Args:
            public_keys: At most two.
            now: Unix seconds.

        Raises:
            ValueError: One is none, or they are more.
        """
        if len(public_keys) > KEYS_MAX:
            raise ValueError(f"{len(public_keys)} public keys; at most {KEYS_MAX} sign orders at a time")
        self._keys = {key.id: key for key in (PublicKey.of(decoded(text)) for text in public_keys)}
        self._now = now

    def check_work(self, work: Work, request: OrderRequest) -> None:
        """Return when this is the signed answer to just this request.

        Raises:
            OrderRefused: It isn't.
        """
        warrant = self._checked(work.warrant, request, Purpose.LOOK if request.attach_only else Purpose.START)
        try:
            is_it = work_digest(work) == warrant.digest
        except UncanonicalError:
            is_it = False
        if not is_it:
            raise OrderRefused(OrderFault.ALTERED, "the work isn't the one that was signed")

    def check_grant(self, grant: UploadGrant, request: UploadRequest) -> None:
        """Return when this is the signed permission to store just this file.

        Raises:
            OrderRefused: It isn't.
        """
        warrant = self._checked(grant.warrant, request, Purpose.UPLOAD)
        if upload_digest(request.file, request.index, grant.target) != warrant.digest:
            raise OrderRefused(OrderFault.ALTERED, "the file or its address isn't the one that was signed")

    def _checked(
        self, warrant: Warrant | None, request: OrderRequest | UploadRequest, purpose: Purpose
    ) -> Warrant:
        if warrant is None:
            raise OrderRefused(OrderFault.UNSIGNED, "it came without a signature")
        key = self._keys.get(warrant.key_id)
        if key is None:
            known = ", ".join(sorted(self._keys)) or "none"
            raise OrderRefused(
                OrderFault.UNKNOWN_KEY, f"signed by the key {warrant.key_id[:16]}; this host knows {known}"
            )
        if not _is_signed(key, warrant):
            raise OrderRefused(OrderFault.ALTERED, "the signature isn't that of what it says")
        if warrant.card_uuid != request.card_uuid:
            raise OrderRefused(OrderFault.ANOTHER_CARD, f"signed for the card {warrant.card_uuid}")
        _check_asked(warrant, request, purpose)
        late_s = self._now() - warrant.expires_at
        if late_s >= 0:
            raise OrderRefused(OrderFault.EXPIRED, f"it ended {late_s:.0f} s ago by this host's clock")
        return warrant


def _is_signed(key: PublicKey, warrant: Warrant) -> bool:
    try:
        return key.signed(decoded(warrant.signature), statement(warrant))
    except ValueError:  # neither base64 nor canonical: nobody signed that
        return False


def _check_asked(warrant: Warrant, request: OrderRequest | UploadRequest, purpose: Purpose) -> None:
    """Refuse what is good for something else, as a permission to look is when a start was asked for."""
    for name, said, asked in (
        ("task", warrant.task_id, request.task_id),
        ("lease", warrant.lease_id, request.lease_id),
        ("fence", warrant.fence, request.fence),
        ("purpose", warrant.purpose, purpose),
        ("question", warrant.nonce, request.nonce),
    ):
        if said != asked:
            raise OrderRefused(OrderFault.NOT_ASKED_FOR, f"signed for the {name} {said!s}, not {asked!s}")
