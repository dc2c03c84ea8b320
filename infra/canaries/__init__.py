"""Which model has yet to prove itself on which card, and the minimal picture that it does so with."""

import struct
import zlib
from collections.abc import Sequence
from datetime import timedelta

from infra.db import Reader, load
from workflows.contracts import timeouts
from workflows.contracts.message import Message

_QUERIES = load(__package__)
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_EIGHT_BIT_RGB = struct.pack(">BBBBB", 8, 2, 0, 0, 0)


class Candidate(Message):
    """A model as it serves now.

    Attributes:
        model_id: The model.
        digest: Of its manifest.
        capability: What a card must offer for it.
        engine: The engine kind that runs it.
        needed_mib: Memory that it needs of each card, reserve included.
        cards: Cards of one host that it needs at once.
    """

    model_id: str
    digest: str
    capability: str
    engine: str
    needed_mib: int
    cards: int


class Unproven(Message):
    """A model without a passed canary on a card that is alive, or a card in quarantine.

    Attributes:
        model_id: The model.
        card_uuid: The card, of which the canary is asked.
        boot_id: The card's present agent; a new agent has to prove itself anew.
        operation_prefix: Of this pair's canaries; the number of the try follows.
        ended: Tries that ended.
        open: True while one is on its way.
        since_last: How long ago the last one ended; None before the first.
    """

    model_id: str
    card_uuid: str
    boot_id: str
    operation_prefix: str
    ended: int
    open: bool
    since_last: timedelta | None


async def unproven(reader: Reader, candidates: Sequence[Candidate]) -> tuple[Unproven, ...]:
    """Every model and live card, fit for each other, without a passed canary under the card's present agent."""
    rows = await reader.all(
        _QUERIES["unproven"],
        models=[each.model_id for each in candidates],
        digests=[each.digest for each in candidates],
        capabilities=[each.capability for each in candidates],
        engines=[each.engine for each in candidates],
        needed_mib=[each.needed_mib for each in candidates],
        needed_cards=[each.cards for each in candidates],
        fresh=timeouts.REPORT_FRESH,
    )
    return tuple(Unproven.model_validate(row) for row in rows)


def picture(side: int) -> bytes:
    """A square PNG of `side` pixels with gradients in all three colours, the same bytes every time."""
    step = 255 / max(side - 1, 1)
    rows = b"".join(
        b"\0" + bytes(v for x in range(side) for v in (int(x * step), int(y * step), int((x ^ y) * step) & 255))
        for y in range(side)
    )
    header = struct.pack(">II", side, side) + _EIGHT_BIT_RGB
    return (
        _PNG_SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows, 9)) + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
