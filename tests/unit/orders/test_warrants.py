"""A warrant is good for just what was signed: one card, lease, fence, purpose and question, for a while."""

import math
import time
from collections.abc import Callable
from functools import partial

import pytest

from infra.orders import OrderKeys, OrderRefused, OrderSigner, owner_of
from infra.orders.signing import VALID_S
from tests.support.internal_api import OTHER_SIGNER, SIGNER, picture_address
from workflows.contracts.hosts import (
    OrderFault,
    OrderRequest,
    Purpose,
    UploadGrant,
    UploadRequest,
    Warrant,
    Work,
    WorkInput,
)
from workflows.contracts.media import BlobRef, InputImage, MediaContract

ASK = OrderRequest(task_id="gen_a", lease_id="l-1", card_uuid="card-1", fence=3, boot_id="b", nonce="n-1")
PICTURE = BlobRef(sha256="a" * 64, size=10, mime="image/png")
FILE = BlobRef(sha256="b" * 64, size=20, mime="image/png")
STORE = UploadRequest(
    task_id="gen_a", lease_id="l-1", fence=3, file=FILE, index=0, card_uuid="card-1", nonce="n-2"
)
GRANT = UploadGrant(target=picture_address("b" * 64, "PUT"))
WORK = Work(
    task_id="gen_a",
    fence=3,
    model_id="image-upscale",
    digest="d",
    engine="native",
    capability="image_upscale",
    mode="fast",
    parameters={"scale": 2, "strength": 0.1, "prompt": "zwölf"},
    inputs=(
        WorkInput(
            image=InputImage(blob=PICTURE, width=4, height=4, has_alpha=False),
            source=picture_address(PICTURE.sha256, "GET"),
        ),
    ),
    outputs=(MediaContract(role="image", mime="image/png", width=8, height=8, has_alpha=False, bytes_max=1_000),),
    run_s_max=60,
)
KEYS = OrderKeys((SIGNER.public_key,))


def signed(request: OrderRequest = ASK, signer: OrderSigner = SIGNER, work: Work = WORK) -> Work:
    return signer.signed_work(work, request, account_id="acc-a")


def granted(request: UploadRequest = STORE, signer: OrderSigner = SIGNER) -> UploadGrant:
    return signer.signed_grant(GRANT, request, account_id="acc-a")


def fault(check: Callable[[], None]) -> OrderFault:
    with pytest.raises(OrderRefused) as refused:
        check()
    assert str(refused.value).startswith(refused.value.fault.value)
    return refused.value.fault


def test_what_was_signed_for_this_is_good_and_says_whose_it_is() -> None:
    work, grant = signed(), granted()
    KEYS.check_work(work, ASK)
    KEYS.check_work(Work.model_validate_json(work.model_dump_json()), ASK)
    KEYS.check_grant(UploadGrant.model_validate_json(grant.model_dump_json()), STORE)
    assert work.warrant is not None
    assert work.warrant.owner == owner_of("acc-a", "gen_a") != owner_of("acc-a", "gen_b")
    assert "acc-a" not in work.model_dump_json()


def test_nothing_and_no_key_are_refused() -> None:
    assert fault(lambda: KEYS.check_work(WORK, ASK)) is OrderFault.UNSIGNED
    assert fault(lambda: KEYS.check_grant(GRANT, STORE)) is OrderFault.UNSIGNED
    assert fault(lambda: OrderKeys(()).check_work(signed(), ASK)) is OrderFault.UNKNOWN_KEY
    assert fault(lambda: KEYS.check_work(signed(signer=OTHER_SIGNER), ASK)) is OrderFault.UNKNOWN_KEY


@pytest.mark.parametrize("name", sorted(set(Warrant.model_fields) - {"purpose", "key_id"}))
def test_no_word_of_a_warrant_can_be_changed(name: str) -> None:
    for good, check in (
        (signed(), lambda work: KEYS.check_work(work, ASK)),
        (granted(), lambda grant: KEYS.check_grant(grant, STORE)),
    ):
        warrant = good.warrant
        assert warrant is not None
        value = getattr(warrant, name)
        other = value + 1 if isinstance(value, int) else "A" + value[1:] if value[0] != "A" else "B" + value[1:]
        changed = good.model_copy(update={"warrant": warrant.model_copy(update={name: other})})
        assert fault(partial(check, changed)) is OrderFault.ALTERED


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": {"scale": 4}},
        {"parameters": {**WORK.parameters, "strength": math.nextafter(0.1, 1)}},
        {"mode": "best"},
        {"capability": "video"},
        {"outputs": ()},
        {"outputs": WORK.outputs * 2},
        {"inputs": ()},
        {"run_s_max": 61},
        {"task_id": "gen_b"},
        {"fence": 4},
    ],
)
def test_no_word_of_the_work_can_be_changed(change: dict[str, object]) -> None:
    changed = signed().model_copy(update=change)
    assert fault(lambda: KEYS.check_work(changed, ASK)) is OrderFault.ALTERED


def test_other_inputs_are_altered_but_their_addresses_are_not_part_of_it() -> None:
    work = signed()
    (item,) = work.inputs
    moved = item.model_copy(update={"source": picture_address("c" * 64, "GET"), "inline": "eA=="})
    KEYS.check_work(work.model_copy(update={"inputs": (moved,)}), ASK)
    blob = PICTURE.model_copy(update={"sha256": "c" * 64})
    other = item.model_copy(update={"image": item.image.model_copy(update={"blob": blob})})
    assert fault(lambda: KEYS.check_work(work.model_copy(update={"inputs": (other,)}), ASK)) is OrderFault.ALTERED


def test_a_permission_names_its_file_its_place_and_its_address() -> None:
    elsewhere = granted().model_copy(update={"target": picture_address("c" * 64, "PUT")})
    assert fault(lambda: KEYS.check_grant(elsewhere, STORE)) is OrderFault.ALTERED
    for change in ({"file": PICTURE}, {"index": 1}):
        other = STORE.model_copy(update=change)
        assert fault(partial(KEYS.check_grant, granted(), other)) is OrderFault.ALTERED


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"card_uuid": "card-2"}, OrderFault.ANOTHER_CARD),
        ({"task_id": "gen_b"}, OrderFault.NOT_ASKED_FOR),
        ({"lease_id": "l-2"}, OrderFault.NOT_ASKED_FOR),
        ({"fence": 2}, OrderFault.NOT_ASKED_FOR),
        ({"nonce": "n-0"}, OrderFault.NOT_ASKED_FOR),
        ({"attach_only": True}, OrderFault.NOT_ASKED_FOR),
    ],
)
def test_what_was_signed_for_something_else_is_refused(change: dict[str, object], expected: OrderFault) -> None:
    """As by somebody who keeps an answer and gives it again: to another card, later, or to start by a look's."""
    kept = signed(ASK.model_copy(update=change))
    assert fault(lambda: KEYS.check_work(kept, ASK)) is expected


def test_a_permission_to_run_is_none_to_store() -> None:
    work = signed()
    grant = GRANT.model_copy(update={"warrant": work.warrant})
    same = STORE.model_copy(update={"nonce": ASK.nonce})
    assert work.warrant is not None
    assert work.warrant.purpose is Purpose.START
    assert fault(lambda: KEYS.check_grant(grant, same)) is OrderFault.NOT_ASKED_FOR


@pytest.mark.parametrize(("after_s", "is_good"), [(VALID_S - 5, True), (VALID_S + 5, False), (-VALID_S, True)])
def test_it_ends(after_s: float, is_good: bool) -> None:
    work, keys = signed(), OrderKeys((SIGNER.public_key,), now=lambda: time.time() + after_s)
    if is_good:
        keys.check_work(work, ASK)
    else:
        assert fault(lambda: keys.check_work(work, ASK)) is OrderFault.EXPIRED


def test_two_keys_are_known_while_they_are_changed() -> None:
    both = OrderKeys((OTHER_SIGNER.public_key, SIGNER.public_key))
    both.check_work(signed(), ASK)
    both.check_work(signed(signer=OTHER_SIGNER), ASK)
    with pytest.raises(ValueError, match="at most 2"):
        OrderKeys((SIGNER.public_key,) * 3)
    with pytest.raises(ValueError, match="base64"):
        OrderKeys(("no key!",))
