"""Every bad input is refused before any hold, with an error that names field and limit; odd ones are taken."""

import asyncio
import os
import select
import socket
from urllib.parse import urlsplit

import psutil
import pytest

from tests.contract.world import CANVAS, MODEL, User, World
from tests.support import pictures
from tests.support.eventually import eventually

MIB = 1024 * 1024


async def assert_nothing_happened(world: World, user: User) -> None:
    """No hold, no workflow, no temporary file, no stored byte."""
    balance = await world.balance(user)
    assert (balance.held, balance.spent) == (0, 0)
    assert world.workflows.admitted == []
    assert world.spooled() == []
    assert await world.stored() == set()


@pytest.mark.parametrize(
    ("name", "content", "label", "status", "code", "says"),
    [
        ("in.png", b"just some text\n" * 20, "image/png", 400, "invalid_media_type", "no picture"),
        (
            "in.png",
            pictures.encoded(pictures.noise(), "JPEG"),
            "image/png",
            400,
            "invalid_media_type",
            "image/jpeg",
        ),
        ("in.jpg", pictures.png(), "image/png", 400, "invalid_media_type", ".jpg"),
        ("in.png", pictures.png(), "application/octet-stream", 400, "invalid_media_type", "image/*"),
        ("in.png", pictures.png(), "text/plain", 400, "invalid_media_type", "image/*"),
        ("in.jpg", pictures.truncated_jpeg(), "image/jpeg", 400, "invalid_media", "cut off"),
        ("in.png", pictures.png()[:-3], "image/png", 400, "invalid_media", "cut off"),
        ("in.png", pictures.bomb_png(), "image/png", 413, "payload_too_large", "the limit is 8192"),
        ("in.gif", pictures.animated("GIF"), "image/gif", 400, "invalid_media_type", "image/webp"),
        (
            "in.tif",
            pictures.encoded(pictures.noise(), "TIFF"),
            "image/tiff",
            400,
            "invalid_media_type",
            "image/webp",
        ),
        ("in.heic", pictures.heic_head(), "image/heif", 400, "invalid_media_type", "takes image/png"),
        ("in.png", pictures.wrong_checksum(b"IHDR"), "image/png", 400, "invalid_media", "corrupt"),
        ("in.png", pictures.wrong_checksum(b"IDAT"), "image/png", 400, "invalid_media", "corrupt"),
        ("in.webp", pictures.animated("WEBP"), "image/webp", 400, "invalid_media", "the limit is 1 frame"),
        ("in.png", pictures.animated("PNG"), "image/png", 400, "invalid_media", "the limit is 1 frame"),
        ("in.png", b"", "image/png", 400, "invalid_media", "0 bytes"),
        ("in.png", pictures.png(15, 40), "image/png", 400, "invalid_request", "the least is 16"),
    ],
    ids=[
        "text named png",
        "jpeg labelled png",
        "png named jpg",
        "octet-stream",
        "labelled text",
        "truncated jpeg",
        "png without its end",
        "decompression bomb",
        "animated gif",
        "tiff",
        "heic of a general brand",
        "png header with a wrong checksum",
        "png data with a wrong checksum",
        "animated webp",
        "animated png",
        "zero bytes",
        "too small",
    ],
)
async def test_a_bad_picture_is_refused_by_name(
    world: World, user: User, name: str, content: bytes, label: str, status: int, code: str, says: str
) -> None:
    answer = await world.post_edit(user, "op-1", files=[("image", (name, content, label))])

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (status, code, "image")
    assert "image" in error["message"]
    assert says in error["message"]
    assert answer.headers["x-ic-operation-id"] == "op-1"
    assert "x-ic-credit-status" not in answer.headers
    await assert_nothing_happened(world, user)


@pytest.mark.parametrize(
    ("name", "content", "label", "width", "height", "alpha"),
    [
        ("in.jpg", pictures.cmyk_jpeg(), "image/jpeg", 64, 48, False),
        ("in.png", pictures.deep_png(), "image/png", 64, 48, False),
        ("in.png", pictures.palette_png(), "image/png", 64, 48, True),
        ("in.jpg", pictures.turned_jpeg(6), "image/jpeg", 48, 64, False),
        ("in.jpg", pictures.turned_jpeg(3), "image/jpeg", 64, 48, False),
        ("in.jpg", pictures.encoded(pictures.noise(), "JPEG", progressive=True), "image/jpg", 64, 48, False),
        ("photo of mine", pictures.encoded(pictures.noise(), "WEBP"), "image/webp", 64, 48, False),
    ],
    ids=["cmyk", "16 bit", "palette", "turned", "upside down", "progressive, old label", "no suffix"],
)
async def test_what_a_user_would_expect_to_work_is_accepted(
    world: World, user: User, name: str, content: bytes, label: str, width: int, height: int, *, alpha: bool
) -> None:
    answer = await world.post_edit(user, "op-1", files=[("image", (name, content, label))])

    assert answer.status_code == 202, answer.text
    request = world.workflows.admitted[0]
    image, output = request.inputs[0], request.outputs[0]
    assert (image.width, image.height, image.has_alpha) == (width, height, alpha)
    assert (output.width, output.height, output.has_alpha) == (2 * width, 2 * height, alpha)


@pytest.mark.parametrize(
    ("fields", "param", "says"),
    [
        ({"scale": "3"}, "scale", "2, 4"),
        ({"scale": "two"}, "scale", "integer"),
        ({"scale": "9" * 400}, "scale", "integer"),
        ({"prompt": "a cat"}, "prompt", "not a parameter"),
        ({"mode": "best"}, "mode", "fast, photo"),
        ({"seed": "5"}, "seed", "it takes: scale"),
    ],
)
async def test_a_parameter_that_does_not_fit_is_named(
    world: World, user: User, fields: dict[str, str], param: str, says: str
) -> None:
    answer = await world.create(user, "op-1", None, **fields)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "invalid_request", param)
    assert says in error["message"]
    await assert_nothing_happened(world, user)


async def test_two_pictures_are_not_cut_down_to_one(world: World, user: User) -> None:
    part = ("image", ("in.png", pictures.png(), "image/png"))
    answer = await world.post_edit(user, "op-1", files=[part, part])

    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "image")
    assert "takes 1 of `image`; 2 came" in error["message"]


async def test_a_mask_is_not_dropped_silently(world: World, user: User) -> None:
    part = ("in.png", pictures.png(), "image/png")
    answer = await world.post_edit(user, "op-1", files=[("image", part), ("mask", part)])

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "mask")


@pytest.mark.parametrize("name", ["no-such-model", "../../etc/passwd", "http://10.0.0.1/", "7"])
async def test_a_model_is_a_public_id_only(world: World, user: User, name: str) -> None:
    answer = await world.create(user, "op-1", model=name)

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
    assert name not in answer.text


@pytest.mark.parametrize("field", ["image", "image[]"])
async def test_an_address_is_no_picture(world: World, user: User, field: str) -> None:
    answer = await world.client.post(
        f"{CANVAS}/images/edits/tasks",
        headers=user.headers("op-1"),
        files=[("model", (None, MODEL)), ("scale", (None, "2")), (field, (None, "http://10.0.0.1/a.png"))],
    )

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "invalid_media_type", "image")


async def test_a_parameter_in_the_address_is_not_dropped_silently(world: World, user: User) -> None:
    part = [("image", ("in.png", pictures.png(), "image/png"))]
    answer = await world.post_edit(user, "op-1", files=part, path="/images/edits/tasks?scale=4")

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "invalid_request", "scale")
    assert answer.headers["x-ic-operation-id"] == "op-1"
    await assert_nothing_happened(world, user)


async def test_a_boundary_longer_than_any_is_the_callers_fault(world: World, user: User) -> None:
    headers = user.headers("op-1") | {"Content-Type": f"multipart/form-data; boundary={'b' * 5_000}"}
    answer = await world.client.post(f"{CANVAS}/images/edits/tasks", headers=headers, content=b"--b--")

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


async def test_json_is_told_which_type_is_taken(world: World, user: User) -> None:
    answer = await world.client.post(
        f"{CANVAS}/images/edits/tasks", headers=user.headers("op-1"), json={"model": MODEL}
    )

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (415, "unsupported_media_type")
    assert "multipart/form-data" in error["message"]


async def test_a_billable_call_needs_an_operation_id(world: World, user: User) -> None:
    answer = await world.post_edit(user, None, files=[("image", ("in.png", pictures.png(), "image/png"))])

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "operation_id_missing")
    assert error["param"] == "X-IC-Operation-ID"


async def test_without_credits_nothing_begins(world: World) -> None:
    poor = await world.user("poor", balance=1)
    answer = await world.create(poor, "op-1")

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["retryable"]) == (402, "insufficient_credits", True)
    assert "costs 2 credits; 1 are available" in error["message"]
    await assert_nothing_happened(world, poor)


async def test_the_same_operation_with_another_picture_is_a_conflict(world: World, user: User) -> None:
    first = await world.create(user, "op-1", pictures.png(seed=1))
    kept = await world.stored()
    answer = await world.create(user, "op-1", pictures.png(seed=2), scale="4")

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (409, "operation_conflict", "image[0]")
    assert "`image[0]`, `scale`" in error["message"]
    assert error["task_id"] == first.json()["id"]
    assert answer.headers["x-ic-credit-status"] == "held"
    assert (await world.balance(user)).held == 2
    assert await world.stored() == kept


async def test_a_file_over_the_limit_is_refused_while_it_streams(world: World, user: User) -> None:
    answer = await world.create(user, "op-1", pictures.png() + b"\0" * (2 * MIB))

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (413, "payload_too_large", "image")
    assert str(2 * MIB) in error["message"]
    await assert_nothing_happened(world, user)


async def test_a_body_of_200_mb_is_not_read_to_its_end(world: World, user: User) -> None:
    sent, answer = await _send_slowly(world, user.headers("op-1"), announce=False)

    assert b" 413 " in answer.split(b"\r\n")[0]
    assert b"payload_too_large" in answer
    assert b"connection: close" in answer
    assert sent < 16 * MIB
    await assert_nothing_happened(world, user)


async def test_an_announced_body_of_200_mb_is_refused_before_it_is_read(world: World, user: User) -> None:
    sent, answer = await _send_slowly(world, user.headers("op-1"), announce=True)

    assert b" 413 " in answer.split(b"\r\n")[0]
    assert b"The body has 200000000 bytes or more" in answer
    assert b"connection: close" in answer
    assert sent < 8 * MIB
    await assert_nothing_happened(world, user)


async def test_a_stranger_is_answered_before_the_body_is_read(world: World, user: User) -> None:
    sent, answer = await _send_slowly(world, {"X-IC-Operation-ID": "op-1"}, announce=True)

    assert b" 401 " in answer.split(b"\r\n")[0]
    assert b"connection: close" in answer
    assert sent < 8 * MIB
    assert world.spooled() == []


async def test_bad_input_takes_no_memory(world: World, user: User) -> None:
    process = psutil.Process(os.getpid())
    bomb = pictures.bomb_png()
    await world.post_edit(user, "warm", files=[("image", ("in.png", bomb, "image/png"))])
    before = process.memory_info().rss
    for place in range(10):
        await world.post_edit(user, f"op-{place}", files=[("image", ("in.png", bomb, "image/png"))])
    assert process.memory_info().rss - before < 50 * MIB


async def test_a_cut_off_body_leaves_nothing(world: World, user: User) -> None:
    head = (
        f"POST {CANVAS}/images/edits/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {user.token}\r\n"
        "X-IC-Operation-ID: op-1\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 5000\r\n\r\n"
        '--b\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n'
        "Content-Type: image/png\r\n\r\nabc"
    )
    url = urlsplit(str(world.client.base_url))
    _, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(head.encode())
    await writer.drain()
    await eventually(lambda: world.spooled() != [])
    writer.close()
    await eventually(lambda: world.spooled() == [])
    await assert_nothing_happened(world, user)


async def _send_slowly(world: World, headers: dict[str, str], *, announce: bool) -> tuple[int, bytes]:
    """Send 200 MB until an answer comes, as clients do; how much was sent, and the answer."""
    total = 200_000_000
    length = f"Content-Length: {total}" if announce else "Transfer-Encoding: chunked"
    lines = [f"{name}: {value}" for name, value in headers.items()]
    start = [f"POST {CANVAS}/images/edits/tasks HTTP/1.1", "Host: x"]
    head = "\r\n".join([*start, *lines, "Content-Type: multipart/form-data; boundary=b", length, "", ""])
    part = (
        '--b\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n'
    )
    url = urlsplit(str(world.client.base_url))
    # A thread with a plain socket: it answers as a browser's or curl's kernel would, and what the server
    # sent before it closed stays readable.
    return await asyncio.to_thread(_flood, url.hostname, url.port, head.encode(), part.encode(), total, announce)


def _flood(
    host: str | None, port: int | None, head: bytes, part: bytes, total: int, announce: bool
) -> tuple[int, bytes]:
    def framed(data: bytes) -> bytes:
        return data if announce else f"{len(data):x}\r\n".encode() + data + b"\r\n"

    piece = framed(b"\0" * 65_536)
    with socket.create_connection((host, port), timeout=20) as connection:
        connection.sendall(head + framed(part))
        sent = 0
        while sent < total and not select.select([connection], [], [], 0)[0]:
            try:
                connection.sendall(piece)
            except ConnectionError:
                break
            sent += len(piece)
        answer = b""
        while b"}}" not in answer and (more := connection.recv(65_536)):
            answer += more
        return sent, answer
