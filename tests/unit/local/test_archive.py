"""A backup file: whole or refused, and no name in it leads anywhere but to its place."""

import io
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from infra.local import archive
from infra.local.archive import ArchiveDamagedError, Manifest

DIGEST = "ab" + "cd" + "0" * 60
BLOB = f"store/blobs/ab/cd/{DIGEST}"
PLAIN = Manifest(
    holdfast="1",
    created_at=datetime(2030, 1, 2, tzinfo=UTC),
    postgres="1",
    temporal="1",
    migrations=(),
    store=True,
)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A good archive of three members."""
    sources = []
    for name, text in ((archive.DATABASE, b"dump"), (archive.SECRETS, b"{}"), (BLOB, b"picture" * 100_000)):
        path = tmp_path / name.replace("/", "-")
        path.write_bytes(text)
        sources.append((name, path))
    archive.write(tmp_path / "made.tar.gz", sources, PLAIN)
    return tmp_path / "made.tar.gz"


def rewritten(made: Path, change: Callable[[tarfile.TarFile, tarfile.TarInfo, bytes], None]) -> Path:
    """The archive, each of its members handed through `change`, which adds what it likes."""
    target = made.with_name("rewritten.tar.gz")
    with tarfile.open(made) as old, tarfile.open(target, "w:gz") as new:
        for member in old:
            stream = old.extractfile(member)
            assert stream is not None
            change(new, member, stream.read())
    return target


def add(tar: tarfile.TarFile, name: str, data: bytes = b"x", **fields: object) -> None:
    header = tarfile.TarInfo(name)
    header.size = len(data)
    for field, value in fields.items():
        setattr(header, field, value)
    tar.addfile(header, io.BytesIO(data))


def test_what_is_written_is_verified_and_extracted(made: Path, tmp_path: Path) -> None:
    manifest = archive.verify(made)
    assert set(manifest.files) == {archive.DATABASE, archive.SECRETS, BLOB}
    assert manifest.size == len(b"dump") + len(b"{}") + 700_000
    home = tmp_path / "home"
    archive.extract(made, manifest, lambda name: None if name == archive.SECRETS else home / name)
    assert (home / BLOB).read_bytes() == b"picture" * 100_000
    assert (home / archive.DATABASE).read_bytes() == b"dump"
    assert not (home / archive.SECRETS).exists()
    for path in (home, *home.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_it_is_for_its_owner_alone_and_leaves_no_half_behind(made: Path, tmp_path: Path) -> None:
    assert made.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileNotFoundError):
        archive.write(tmp_path / "bad.tar.gz", [(archive.DATABASE, tmp_path / "absent")], PLAIN)
    with pytest.raises(ValueError, match="not a name"):
        archive.write(tmp_path / "bad.tar.gz", [("../x", made)], PLAIN)
    assert not list(tmp_path.glob("bad*"))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 0.999])
def test_one_that_was_cut_off_is_refused(made: Path, share: float) -> None:
    whole = made.read_bytes()
    made.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ArchiveDamagedError):
        archive.verify(made)


@pytest.mark.parametrize("place", [20, -60, -9])
def test_a_flipped_byte_is_found(made: Path, place: int) -> None:
    data = bytearray(made.read_bytes())
    data[place] ^= 0xFF
    made.write_bytes(data)
    with pytest.raises(ArchiveDamagedError):
        archive.verify(made)


def test_what_is_no_archive_at_all_is_refused(tmp_path: Path) -> None:
    for data in (b"", b"hello", b"\x1f\x8b" + b"junk" * 10):
        (tmp_path / "junk").write_bytes(data)
        with pytest.raises(ArchiveDamagedError):
            archive.verify(tmp_path / "junk")


def test_changed_bytes_under_a_good_checksum_are_found(made: Path) -> None:
    changed = rewritten(
        made, lambda tar, member, data: add(tar, member.name, b"dumq" if member.name == archive.DATABASE else data)
    )
    with pytest.raises(ArchiveDamagedError, match=archive.DATABASE):
        archive.verify(changed)


def test_a_missing_and_a_surplus_member_are_found(made: Path) -> None:
    def drop(tar: tarfile.TarFile, member: tarfile.TarInfo, data: bytes) -> None:
        if member.name != BLOB:
            add(tar, member.name, data)

    def surplus(tar: tarfile.TarFile, member: tarfile.TarInfo, data: bytes) -> None:
        add(tar, member.name, data)
        if member.name == archive.DATABASE:
            add(tar, archive.TEMPORAL)

    for change in (drop, surplus):
        with pytest.raises(ArchiveDamagedError, match="differ from the manifest"):
            archive.verify(rewritten(made, change))


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "/etc/passwd",
        "store/../../outside",
        f"store/blobs/00/00/{DIGEST}",
        "engines/../../x/runs/a/b",
        "engines/x/runs/../b",
        "engines/x/runs/.hidden/b",
        "engines/x/engine.sock",
        "run/state.json",
        "DATABASE.DUMP",
        f"{BLOB}/x",
        f"{BLOB}\n",
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(made: Path, tmp_path: Path, name: str) -> None:
    def smuggle(tar: tarfile.TarFile, member: tarfile.TarInfo, data: bytes) -> None:
        if member.name == archive.DATABASE:
            add(tar, name)
        add(tar, member.name, data)

    assert not archive.is_allowed(name)
    with pytest.raises(ArchiveDamagedError, match="no backup has a member"):
        archive.verify(rewritten(made, smuggle))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_what_is_no_plain_file_is_refused(made: Path, kind: bytes) -> None:
    def link(tar: tarfile.TarFile, member: tarfile.TarInfo, data: bytes) -> None:
        if member.name == archive.SECRETS:
            add(tar, member.name, b"", type=kind, linkname="/etc/passwd")
        else:
            add(tar, member.name, data)

    with pytest.raises(ArchiveDamagedError, match="plain file"):
        archive.verify(rewritten(made, link))


def test_a_member_that_comes_twice_is_refused(made: Path) -> None:
    def twice(tar: tarfile.TarFile, member: tarfile.TarInfo, data: bytes) -> None:
        add(tar, member.name, data)
        add(tar, member.name, data)

    with pytest.raises(ArchiveDamagedError, match="twice"):
        archive.verify(rewritten(made, twice))


def test_one_that_changes_after_it_was_verified_is_not_trusted(made: Path, tmp_path: Path) -> None:
    manifest = archive.verify(made)
    changed = rewritten(
        made, lambda tar, member, data: add(tar, member.name, b"dumq" if member.name == archive.DATABASE else data)
    )
    with pytest.raises(ArchiveDamagedError, match="changed while"):
        archive.extract(changed, manifest, lambda name: tmp_path / "home" / name)


def test_nothing_that_exists_is_written_to(made: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "precious").write_text("precious")
    (home / archive.DATABASE).symlink_to(tmp_path / "precious")
    with pytest.raises(FileExistsError):
        archive.extract(made, archive.verify(made), lambda name: home / name)
    assert (tmp_path / "precious").read_text() == "precious"
