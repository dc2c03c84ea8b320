"""References to media and what is promised about them. Histories carry these, never bytes."""

from workflows.contracts.failures import Code
from workflows.contracts.message import Message, Words


class BlobRef(Message):
    """Bytes in the object store, addressed by their SHA-256.

    Attributes:
        sha256: 64 lower-case hex digits; also the store's key and the ETag.
        size: Bytes.
        mime: The type found in the bytes, never the caller's label.
    """

    sha256: str
    size: int
    mime: str


class InputImage(Message):
    """One input picture, in the caller's order, as it was probed on arrival (upright size)."""

    blob: BlobRef
    width: int
    height: int
    has_alpha: bool


class MediaContract(Message):
    """What the result must be for money to move.

    Attributes:
        role: What the artifact is to the caller, `image` or `first_frame` or `final`.
        mime: The exact type.
        width: Pixels, upright.
        height: Pixels, upright.
        has_alpha: Whether an alpha channel must be there; None when either is right.
        bytes_max: A larger file is refused before it is decoded.
        may_be_blank: True when the input itself is of one colour, so that a blank result is right.
    """

    role: str
    mime: str
    width: int
    height: int
    has_alpha: bool | None
    bytes_max: int
    may_be_blank: bool = False


class Artifact(Message):
    """One kept result.

    Attributes:
        index: Its place in the answer, from 0.
        role: As in its contract.
        blob: The bytes.
        width: Measured pixels.
        height: Measured pixels.
    """

    index: int
    role: str
    blob: BlobRef
    width: int
    height: int


class RefusedOutput(Message):
    """An output that was asked for and isn't delivered, so that it isn't paid.

    Attributes:
        index: Its place among the outputs asked for, from 0.
        code: Why, as a code.
        message: Why, in a sentence for the caller.
    """

    index: int
    code: Code
    message: Words


class Partial(Message):
    """What a generation delivered that could not deliver all.

    Attributes:
        asked: Outputs asked for.
        delivered: Outputs delivered; only these are paid.
        refused: The others, by their place among those asked for.
    """

    asked: int
    delivered: int
    refused: tuple[RefusedOutput, ...]
