"""The judgement of an engine's output: decoded to its end and measured against its contract. Blocking."""

from dataclasses import dataclass
from pathlib import Path

from infra.media import vips
from infra.media.sniff import HEAD_BYTES, sniff, walk_png
from workflows.contracts.failures import Code, Failure
from workflows.contracts.media import MediaContract

BLANK_OUTPUT_RANGE = 2 / 255
"""A picture whose widest band spans no more is of one colour."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A good output: its true type and upright size in pixels."""

    mime: str
    width: int
    height: int


def judge(path: Path, contract: MediaContract) -> Measured | Failure:
    """Measure a file against its contract. The failure's text is for the caller: it names no path."""
    size = path.stat().st_size
    if not 0 < size <= contract.bytes_max:
        return _broken(contract, f"has {size} bytes; allowed are 1 to {contract.bytes_max}")
    with path.open("rb") as file:
        mime = sniff(file.read(HEAD_BYTES))
    if mime != contract.mime or mime not in vips.DECODABLE:
        return _broken(contract, f"is {mime or 'of no known type'}, not {contract.mime}")
    try:
        return _judge_pixels(path, contract, mime)
    except vips.UndecodableError:
        return _broken(contract, "can't be decoded to its end")


def _judge_pixels(path: Path, contract: MediaContract, mime: str) -> Measured | Failure:
    header = vips.read_header(path, mime)
    mismatch = _mismatch(path, header, contract, mime)
    if mismatch is not None:
        return _broken(contract, mismatch)
    spread = vips.decode(path, mime)
    if not contract.may_be_blank and spread.widest <= BLANK_OUTPUT_RANGE:
        black = spread.highest <= BLANK_OUTPUT_RANGE  # engines that overflow to NaN give exactly 0
        return _collapsed(contract, "black all over" if black else "of one colour all over")
    return Measured(mime=mime, width=header.width, height=header.height)


def _mismatch(path: Path, header: vips.Header, contract: MediaContract, mime: str) -> str | None:
    """How the header differs from the contract; the size is compared before anything is decoded."""
    if (header.width, header.height) != (contract.width, contract.height):
        return f"is {header.width} x {header.height}, not {contract.width} x {contract.height}"
    if contract.has_alpha is not None and header.has_alpha != contract.has_alpha:
        return "lacks its alpha channel" if contract.has_alpha else "has an alpha channel"
    frames = header.frames
    if mime == "image/png":
        structure = walk_png(path)
        if not structure.complete:
            raise vips.UndecodableError
        frames = structure.frames
    return None if frames == 1 else f"has {frames} frames, not 1"


def _collapsed(contract: MediaContract, what: str) -> Failure:
    return Failure(code=Code.IMAGE_OUTPUT_LOCAL_BLACK_COLLAPSE, message=f"The result `{contract.role}` is {what}.")


def _broken(contract: MediaContract, what: str) -> Failure:
    return Failure(code=Code.MEDIA_VALIDATION_FAILED, message=f"The result `{contract.role}` {what}.")
