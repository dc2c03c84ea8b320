"""Who a host is."""

from pathlib import Path

from infra.hosts.identity import host_identity


def test_a_host_is_who_it_was_and_another_home_is_another_host(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    assert host_identity(one) == host_identity(one) != host_identity(other)


def test_an_identity_that_a_full_disk_left_empty_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "identity").write_text("")
    assert host_identity(tmp_path)
