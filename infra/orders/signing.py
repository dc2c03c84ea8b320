"""The API's side: warrants for what a host asked for."""

import hashlib
import time

from infra.orders.statement import statement, upload_digest, work_digest
from infra.signatures.keys import Signer, encoded
from workflows.contracts.hosts import OrderRequest, Purpose, UploadGrant, UploadRequest, Warrant, Work

VALID_S = 900
"""As long as the signed addresses that come with it, and far more than a host's clock is wrong by."""


class OrderSigner:
    """Signs orders and permissions to upload."""

    def __init__(self, seed: str) -> None:
        """`seed` is an Ed25519 seed, 32 bytes in URL-safe base64.

        Raises:
            ValueError: It is not; the message doesn't repeat it.
        """
        self._signer = Signer(seed)

    @property
    def public_key(self) -> str:
        """What hosts check by: 32 bytes in URL-safe base64."""
        return self._signer.public.public_key

    def signed_work(self, work: Work, request: OrderRequest, *, account_id: str) -> Work:
        """The work with its warrant: to start it, or with `attach_only` to look for it."""
        purpose = Purpose.LOOK if request.attach_only else Purpose.START
        return work.model_copy(
            update={"warrant": self._signed(request, purpose, account_id=account_id, digest=work_digest(work))}
        )

    def signed_grant(self, grant: UploadGrant, request: UploadRequest, *, account_id: str) -> UploadGrant:
        """The permission with its warrant."""
        digest = upload_digest(request.file, request.index, grant.target)
        return grant.model_copy(
            update={"warrant": self._signed(request, Purpose.UPLOAD, account_id=account_id, digest=digest)}
        )

    def _signed(
        self, request: OrderRequest | UploadRequest, purpose: Purpose, *, account_id: str, digest: str
    ) -> Warrant:
        warrant = Warrant(
            purpose=purpose,
            owner=owner_of(account_id, request.task_id),
            task_id=request.task_id,
            card_uuid=request.card_uuid,
            lease_id=request.lease_id,
            fence=request.fence,
            nonce=request.nonce,
            expires_at=int(time.time()) + VALID_S,
            digest=digest,
            key_id=self._signer.public.id,
        )
        return warrant.model_copy(update={"signature": encoded(self._signer.sign(statement(warrant)))})


def owner_of(account_id: str, task_id: str) -> str:
    """Whose work it is, for whoever knows the account: a host can't tell, nor that two tasks are of one owner."""
    return hashlib.sha256(f"{account_id}\n{task_id}".encode()).hexdigest()
