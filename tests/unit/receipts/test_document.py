"""A receipt proves what was signed, and nothing once anything in it is other than it was."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from infra.receipts import (
    PublicKey,
    ReceiptRefusedError,
    Signer,
    canonical,
    document,
    key_file,
    read_key_file,
    verified,
)
from infra.signatures.keys import encoded

SIGNER = Signer(encoded(bytes(range(32))))
OTHER = Signer(encoded(bytes(32)))
PAYLOAD: dict[str, Any] = {
    "operation_id": "op-1",
    "task_id": "gen_1",
    "made_by": None,
    "model": {"id": "image-upscale", "digest": "d" * 64},
    "price": {"unit": "credit", "credits": 4, "per_output": [2, 2], "charged": 2},
    "artifacts": [{"index": 0, "sha256": "a" * 64, "size": 10}],
    "postings": [{"kind": "hold", "credits": 4}, {"kind": "settled", "credits": 2}],
    "late": False,
}
RECEIPT = document(PAYLOAD, SIGNER)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every leaf and every list or object inside."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from _places(inner, (*path, name))


def _changed(path: tuple[Any, ...], how: str) -> bytes:
    whole = copy.deepcopy(json.loads(RECEIPT))
    *way, last = path
    holder = whole
    for step in way:
        holder = holder[step]
    value = holder[last]
    if how == "gone":
        del holder[last]
    else:
        match value:
            case bool() | None:
                holder[last] = 0
            case int():
                holder[last] = value + 1
            case str():
                holder[last] = value[:-1] + ("0" if value[-1] != "0" else "1")
            case list():
                holder[last] = [*value, 1]
            case dict():
                holder[last] = value | {"more": 1}
    return json.dumps(whole).encode()


def test_a_receipt_proves_its_payload_however_it_is_spelled() -> None:
    spaced = json.dumps(json.loads(RECEIPT), indent=4).encode()

    assert verified(RECEIPT, [OTHER.public, SIGNER.public]) == verified(spaced, [SIGNER.public])
    assert PAYLOAD.items() <= verified(RECEIPT, [SIGNER.public]).items()
    assert document(PAYLOAD, SIGNER) == document(dict(reversed(PAYLOAD.items())), SIGNER) == RECEIPT


@pytest.mark.parametrize("how", ["other", "gone"])
@pytest.mark.parametrize("path", list(_places(json.loads(RECEIPT))), ids=str)
def test_whatever_is_changed_is_noticed(path: tuple[Any, ...], how: str) -> None:
    with pytest.raises(ReceiptRefusedError):
        verified(_changed(path, how), [SIGNER.public, OTHER.public])


def test_anything_beside_payload_and_signature_is_refused() -> None:
    with pytest.raises(ReceiptRefusedError, match="nothing else"):
        verified(json.dumps(json.loads(RECEIPT) | {"note": "paid"}).encode(), [SIGNER.public])


def test_another_key_proves_nothing_also_under_the_first_ones_id() -> None:
    with pytest.raises(ReceiptRefusedError, match="not among the 1 known"):
        verified(RECEIPT, [OTHER.public])
    posing = OTHER.public.model_copy(update={"id": SIGNER.public.id})
    with pytest.raises(ReceiptRefusedError, match="changed"):
        verified(RECEIPT, [posing])
    with pytest.raises(ReceiptRefusedError, match="not among the 0 known"):
        verified(RECEIPT, [])


@pytest.mark.parametrize(
    ("member", "value"), [("version", 2), ("version", True), ("version", "1"), ("version", None)]
)
def test_an_unknown_version_is_refused_by_name(member: str, value: object) -> None:
    whole = json.loads(RECEIPT)
    whole["payload"][member] = value
    with pytest.raises(ReceiptRefusedError, match=f"version is {value!r}"):
        verified(json.dumps(whole).encode(), [SIGNER.public])


def test_an_unknown_algorithm_is_refused_by_name() -> None:
    whole = json.loads(RECEIPT)
    whole["signature"]["algorithm"] = "none"
    with pytest.raises(ReceiptRefusedError, match="signed by 'none'"):
        verified(json.dumps(whole).encode(), [SIGNER.public])


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"{}", b'{"payload":1,"signature":2}', b"x" * 2_000_000])
def test_what_is_no_receipt_is_refused_as_that(text: bytes) -> None:
    with pytest.raises(ReceiptRefusedError):
        verified(text, [SIGNER.public])


def test_a_signature_has_one_spelling() -> None:
    whole = json.loads(RECEIPT)
    whole["signature"]["value"] += "=="
    with pytest.raises(ReceiptRefusedError):
        verified(json.dumps(whole).encode(), [SIGNER.public])


def test_a_signature_over_the_bare_payload_does_not_pass() -> None:
    whole = json.loads(RECEIPT)
    whole["signature"]["value"] = encoded(SIGNER.sign(canonical(whole["payload"])))
    with pytest.raises(ReceiptRefusedError, match="changed"):
        verified(json.dumps(whole).encode(), [SIGNER.public])


def test_published_keys_are_read_again_and_their_ids_are_what_their_bytes_say() -> None:
    published = key_file([SIGNER.public, OTHER.public])
    published["keys"][0]["key_id"] = "0" * 16

    read = read_key_file(json.dumps(published).encode())
    assert [key.id for key in read] == [SIGNER.public.id, OTHER.public.id]
    assert verified(RECEIPT, read)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"keys":[1]}', b'{"keys":[{"public_key":"x","algorithm":"Ed25519"}]}']
)
def test_a_file_without_keys_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_key_file(text)


@pytest.mark.parametrize("seed", ["", "short", "A" * 44, "!" * 43])
def test_a_seed_is_32_bytes_and_never_repeated_in_words(seed: str) -> None:
    with pytest.raises(ValueError, match="32 bytes") as caught:
        Signer(seed)
    assert not seed or seed not in str(caught.value)


def test_the_known_answer_of_the_standard() -> None:
    # RFC 8032, section 7.1, test 1.
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    signer = Signer(encoded(seed))
    public = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    assert signer.public == PublicKey.of(public)
    assert signer.sign(b"").hex().startswith("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555f")
