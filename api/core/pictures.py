"""The pictures of a draft: probed from their headers, refused before decoding, then decoded once to the end."""

from collections.abc import Sequence
from typing import TypeVar

from api.core.known import KnownPictures
from api.errors import ApiError
from api.uploads.multipart import UploadedFile
from infra.media.decoder import Decoder
from infra.media.probe import refuse_label
from workflows.contracts.failures import Failure
from workflows.domain.manifest import Manifest
from workflows.domain.plan import IMAGE_FIELD, ImageFacts, choose_mode, refuse_count, refuse_image

T = TypeVar("T")


async def probed_pictures(
    decoder: Decoder,
    known: KnownPictures,
    account_id: str,
    manifest: Manifest,
    mode: str | None,
    images: Sequence[UploadedFile],
) -> tuple[ImageFacts, ...]:
    """Facts of each picture, in order, from its header. A decompression bomb ends here, not decoded.

    What the account sent before is known; only what it is called this time is judged again.

    Raises:
        ApiError: Naming field and limit.
    """
    mode_name, _ = _good(choose_mode(manifest, mode))
    _refuse(refuse_count(manifest, len(images)))
    probed: list[ImageFacts] = []
    for image in images:
        facts = known.facts(account_id, image.sha256)
        if facts is None:
            facts = _good(
                await decoder.probe(
                    image.path,
                    field=IMAGE_FIELD,
                    label=image.label,
                    filename=image.filename,
                    mimes=manifest.images.mimes,
                )
            )
        else:
            _refuse(refuse_label(IMAGE_FIELD, facts.mime, image.label, image.filename))
        _refuse(refuse_image(manifest, mode_name, facts))
        probed.append(facts)
    return tuple(probed)


async def decoded_pictures(
    decoder: Decoder,
    known: KnownPictures,
    account_id: str,
    images: Sequence[UploadedFile],
    probed: Sequence[ImageFacts],
) -> tuple[ImageFacts, ...]:
    """Decode each picture once, to its end, so that what is cut off or corrupt is refused before any hold.

    Raises:
        ApiError: Naming the field.
    """
    decoded: list[ImageFacts] = []
    for image, facts in zip(images, probed, strict=True):
        whole = known.facts(account_id, image.sha256)
        if whole is None:
            whole = _good(await decoder.decode_fully(image.path, facts, field=IMAGE_FIELD))
        decoded.append(whole)
    return tuple(decoded)


def _refuse(failure: Failure | None) -> None:
    if failure is not None:
        raise ApiError(failure)


def _good(value: T | Failure) -> T:
    if isinstance(value, Failure):
        raise ApiError(value)
    return value
