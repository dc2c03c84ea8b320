"""Short-lived addresses of blobs in a store that can't sign its own, served by `/internal/v1/blobs`."""

import hashlib
import hmac
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from workflows.contracts.hosts import SignedAddress
from workflows.contracts.media import BlobRef

PATH = "/internal/v1/blobs"


@dataclass(frozen=True, slots=True)
class Permit:
    """What a signature covers: one method on one blob of a known size and type, until a second of Unix time."""

    method: str
    sha256: str
    size: int
    mime: str
    expires: int

    def text(self) -> bytes:
        """The signed text; each part has its line, so that none can run into the next."""
        return "\n".join((self.method, self.sha256, str(self.size), self.mime, str(self.expires))).encode()


class Signer:
    """Makes and checks signatures (HMAC-SHA-256) with the platform's signing secret."""

    def __init__(self, secret: str, base_url: str) -> None:
        """`base_url` is how hosts reach the API, without a trailing slash."""
        self._secret = secret.encode()
        self._base_url = base_url

    def address(self, method: str, blob: BlobRef, seconds: int) -> SignedAddress:
        """An address that allows `method` on `blob` for so many seconds."""
        expires_at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=seconds)
        permit = Permit(method, blob.sha256, blob.size, blob.mime, int(expires_at.timestamp()))
        query = urlencode(
            {
                "size": permit.size,
                "mime": permit.mime,
                "expires": permit.expires,
                "signature": self._sign(permit),
            }
        )
        return SignedAddress(
            url=f"{self._base_url}{PATH}/{blob.sha256}?{query}", method=method, expires_at=expires_at
        )

    def allows(self, permit: Permit, signature: str) -> bool:
        """Whether the signature is ours and its time isn't over. False without a secret."""
        if not self._secret or permit.expires < datetime.now(UTC).timestamp():
            return False
        return hmac.compare_digest(self._sign(permit).encode(), signature.encode())

    def _sign(self, permit: Permit) -> str:
        return hmac.new(self._secret, permit.text(), hashlib.sha256).hexdigest()
