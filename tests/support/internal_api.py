"""The API's internal endpoint and its store, in a few lines, with faults to switch on. No sockets."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import httpx

from infra.hosts.client import HostClient
from infra.orders import OrderKeys, OrderSigner
from workflows.contracts.generation import RunOrder
from workflows.contracts.hosts import (
    ClaimRefused,
    OrderRequest,
    ReportTaken,
    SignedAddress,
    StaleLease,
    UploadGrant,
    UploadRequest,
    Work,
    WorkInput,
)
from workflows.contracts.media import BlobRef, InputImage, MediaContract

TOKEN = "host-token"
SIGNER = OrderSigner("c2lnbnMtd2hhdC1ob3N0cy1hcmUtdG9sZC10by1kby4")
OTHER_SIGNER = OrderSigner("c29tZWJvZHktZWxzZS13aG8taXNudC1oZWFyZC4uLi4")


@dataclass
class InternalApi:
    """Serves one picture to be doubled, and takes results.

    Attributes:
        picture: The input's bytes.
        width: Its width.
        height: Its height.
        run_s_max: Told with the work.
        asked: How many results are asked for.
        away: While set, every call fails as a gateway's does.
        stale: While set, leases are refused with this reason.
        stray: While set, another agent owns the card.
        refused: Cards of reports that are another host's, with the reason.
        fail_next: So many calls fail before one succeeds.
        serve: Bytes served in place of the picture.
        orders: Order requests taken, as sent.
        reports: Reports taken, as sent.
        signer: Signs orders and permissions; None leaves them unsigned.
        tamper: Changes an order or a permission on its way, after it was signed.
        stored: What was uploaded, by digest.
        uploads: PUTs taken.
    """

    picture: bytes
    width: int = 40
    height: int = 32
    run_s_max: int = 60
    asked: int = 1
    away: bool = False
    stale: str | None = None
    stray: bool = False
    refused: dict[str, str] = field(default_factory=dict)
    stale_uploads: str | None = None
    fail_next: int = 0
    serve: bytes | None = None
    signer: OrderSigner | None = SIGNER
    tamper: Callable[[Work | UploadGrant], Work | UploadGrant] | None = None
    orders: list[dict[str, object]] = field(default_factory=list)
    reports: list[dict[str, object]] = field(default_factory=list)
    stored: dict[str, bytes] = field(default_factory=dict)
    uploads: int = 0

    def client(self) -> HostClient:
        """A host's client of this."""
        return HostClient(
            "http://api", TOKEN, keys=OrderKeys((SIGNER.public_key,)), transport=httpx.MockTransport(self.handle)
        )

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        if self.away:
            return httpx.Response(503)
        if self.fail_next > 0:
            self.fail_next -= 1
            raise httpx.ConnectError("refused", request=request)
        name = request.url.path.rsplit("/", 2)
        if "/blobs/" in request.url.path:
            return self._blob(request, name[-1])
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return httpx.Response(401)
        body = json.loads(request.content)
        if name[-1] == "report":
            self.reports.append(body)
            refused = tuple(ClaimRefused(card_uuid=uuid, reason=why) for uuid, why in self.refused.items())
            return httpx.Response(200, text=ReportTaken(refused=refused).model_dump_json())
        if name[-1] == "orders":
            return self._order(body)
        return self._grant(body)

    def _order(self, body: dict[str, object]) -> httpx.Response:
        self.orders.append(body)
        if self.stray:
            return _stale("another agent owns the card", stray=True)
        if self.stale is not None:
            return _stale(self.stale)
        work = Work(
            task_id=str(body["task_id"]),
            fence=int(str(body["fence"])),
            model_id="image-upscale",
            digest="d",
            engine="native",
            capability="image_upscale",
            mode="fast",
            parameters={"scale": 2},
            inputs=(WorkInput(image=self._image(), source=picture_address(self._image().blob.sha256, "GET")),),
            outputs=(
                MediaContract(
                    role="image",
                    mime="image/png",
                    width=self.width * 2,
                    height=self.height * 2,
                    has_alpha=False,
                    bytes_max=10_000_000,
                ),
            )
            * self.asked,
            run_s_max=self.run_s_max,
        )
        if self.signer is not None:
            work = self.signer.signed_work(work, OrderRequest.model_validate(body), account_id="acc-a")
        return self._sent(work)

    def _sent(self, answer: Work | UploadGrant) -> httpx.Response:
        return httpx.Response(200, text=(self.tamper(answer) if self.tamper else answer).model_dump_json())

    def _grant(self, body: dict[str, object]) -> httpx.Response:
        reason = self.stale or self.stale_uploads
        if reason is not None:
            return _stale(reason)
        file = BlobRef.model_validate(body["file"])
        target = None if file.sha256 in self.stored else picture_address(file.sha256, "PUT")
        grant = UploadGrant(target=target)
        if self.signer is not None:
            grant = self.signer.signed_grant(grant, UploadRequest.model_validate(body), account_id="acc-a")
        return self._sent(grant)

    def _blob(self, request: httpx.Request, sha256: str) -> httpx.Response:
        assert "authorization" not in request.headers, "the host's token goes to the internal endpoint only"
        if request.method == "GET":
            return httpx.Response(200, content=self.serve if self.serve is not None else self.picture)
        self.uploads += 1
        content = request.read()
        if hashlib.sha256(content).hexdigest() != sha256:
            return httpx.Response(400)
        self.stored[sha256] = content
        return httpx.Response(201)

    def _image(self) -> InputImage:
        blob = BlobRef(sha256=hashlib.sha256(self.picture).hexdigest(), size=len(self.picture), mime="image/png")
        return InputImage(blob=blob, width=self.width, height=self.height, has_alpha=False)


def order(fence: int = 1, *, task: str = "gen_a", card: str = "cpu-test-0", attach_only: bool = False) -> RunOrder:
    """A lease's order."""
    return RunOrder(task_id=task, lease_id=f"lease-{fence}", card_uuid=card, fence=fence, attach_only=attach_only)


def picture_address(sha256: str, method: str) -> SignedAddress:
    """A signed address of it, as far as a host can tell."""
    return SignedAddress(
        url=f"/internal/v1/blobs/{sha256}?signature=x",
        method=method,
        expires_at=datetime.now(UTC) + timedelta(minutes=5),
    )


def _stale(reason: str, *, stray: bool = False) -> httpx.Response:
    return httpx.Response(409, text=StaleLease(reason=reason, stray=stray).model_dump_json())
