"""A picture that arrived: probed from its header, then decoded once to its end. Blocking; see `decoder`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from infra.media import vips
from infra.media.sniff import HEAD_BYTES, LABELS, SUFFIXES, sniff, walk_png
from workflows.contracts.failures import Code, Failure
from workflows.domain.plan import ImageFacts

BLANK_INPUT_RANGE = 8 / 255
"""An input whose widest band spans less may rightly give a blank output. Wider than the output's bound on
purpose: what is nearly blank must not be judged as a collapse after smoothing."""


def probe(
    path: Path,
    *,
    field: str,
    label: str | None,
    filename: str | None,
    mimes: Sequence[str] = tuple(sorted(vips.DECODABLE)),
) -> ImageFacts | Failure:
    """What the bytes are, by signature and header; no pixel is decoded.

    Args:
        path: The file.
        field: The request's field, named by refusals.
        label: The part's MIME type as sent.
        filename: The part's file name as sent; only its suffix is looked at.
        mimes: Types that are taken, for the refusal of another one.
    """
    size = path.stat().st_size
    if size == 0:
        return Failure(
            code=Code.INVALID_MEDIA, message=f"`{field}` is empty: 0 bytes; the least is 1.", param=field
        )
    with path.open("rb") as file:
        mime = sniff(file.read(HEAD_BYTES))
    lie = refuse_label(field, mime, label, filename)
    if lie is not None:
        return lie
    if mime not in vips.DECODABLE or mime not in mimes:
        message = f"`{field}` is {mime}; this model takes {', '.join(mimes)}."
        return Failure(code=Code.INVALID_MEDIA_TYPE, message=message, param=field)
    try:
        header = vips.read_header(path, mime)
    except vips.UndecodableError:
        return _undecodable(field, mime)
    frames = header.frames
    if mime == "image/png":
        structure = walk_png(path)
        if not structure.complete:
            return _undecodable(field, mime)
        frames = structure.frames
    return ImageFacts(
        mime=mime,
        size=size,
        width=header.width,
        height=header.height,
        frames=frames,
        has_alpha=header.has_alpha,
    )


def decode_fully(path: Path, facts: ImageFacts, *, field: str) -> ImageFacts | Failure:
    """Decode every pixel of a picture whose header was accepted; adds whether it is blank."""
    try:
        spread = vips.decode(path, facts.mime)
    except vips.UndecodableError:
        return _undecodable(field, facts.mime)
    return replace(facts, blank=spread.widest <= BLANK_INPUT_RANGE)


def refuse_label(field: str, mime: str | None, label: str | None, filename: str | None) -> Failure | None:
    """Why a part's label or file name contradicts its bytes, whose type is `mime`."""
    shown = mime or "no picture that we know"
    said = (label or "").split(";")[0].strip().lower()
    said = LABELS.get(said, said)
    if not said.startswith("image/"):
        message = f"`{field}` is labelled `{said[:60] or 'nothing'}`; a picture needs its image/* type."
        return Failure(code=Code.INVALID_MEDIA_TYPE, message=message, param=field)
    if said != mime:
        message = f"`{field}` is labelled `{said[:60]}`, but its bytes are {shown}."
        return Failure(code=Code.INVALID_MEDIA_TYPE, message=message, param=field)
    suffix = (filename or "").rpartition(".")[2].lower() if "." in (filename or "") else ""
    if SUFFIXES.get(suffix, mime) != mime:
        message = f"`{field}` is named .{suffix}, but its bytes are {shown}."
        return Failure(code=Code.INVALID_MEDIA_TYPE, message=message, param=field)
    return None


def _undecodable(field: str, mime: str) -> Failure:
    message = f"`{field}` can't be decoded to its end as {mime}: it is cut off or corrupt."
    return Failure(code=Code.INVALID_MEDIA, message=message, param=field)
