"""Whose address counts: the peer's, or what our own proxies heard."""

import pytest
from fastapi import Request

from api.auth.address import address_of
from infra.accounts.keys import ApiKey


def _request(peer: str, *forwarded: str) -> Request:
    headers = [(b"x-forwarded-for", one.encode()) for one in forwarded]
    return Request({"type": "http", "client": (peer, 1), "headers": headers})


@pytest.mark.parametrize(
    ("peer", "forwarded", "found"),
    [
        ("198.51.100.7", ("10.0.0.1",), "198.51.100.7"),
        ("10.0.0.9", (), "10.0.0.9"),
        ("10.0.0.9", ("203.0.113.5",), "203.0.113.5"),
        ("10.0.0.9", ("10.66.0.1, 203.0.113.5",), "203.0.113.5"),
        ("10.0.0.9", ("192.0.2.1, 203.0.113.5, 10.0.0.8",), "203.0.113.5"),
        ("10.0.0.9", ("192.0.2.1", "203.0.113.5"), "203.0.113.5"),
        ("10.0.0.9", ("nonsense",), "nonsense"),
        ("", ("203.0.113.5",), ""),
    ],
)
def test_only_a_trusted_proxy_is_believed_and_only_its_last_word(
    peer: str, forwarded: tuple[str, ...], found: str
) -> None:
    assert address_of(_request(peer, *forwarded), ("10.0.0.0/16",)) == found


def test_without_trusted_proxies_no_header_counts() -> None:
    assert address_of(_request("10.0.0.9", "203.0.113.5"), ()) == "10.0.0.9"


@pytest.mark.parametrize(
    ("networks", "address", "allowed"),
    [
        ((), "anything", True),
        (("10.0.0.0/8",), "10.9.9.9", True),
        (("10.0.0.0/8",), "::ffff:10.9.9.9", True),
        (("10.0.0.0/8",), "11.0.0.1", False),
        (("10.0.0.0/8",), "2001:db8::1", False),
        (("2001:db8::/32",), "2001:db8::1", True),
        (("10.0.0.0/8",), "nonsense", False),
        (("10.0.0.0/8",), "", False),
    ],
)
def test_a_keys_networks(networks: tuple[str, ...], address: str, *, allowed: bool) -> None:
    key = ApiKey.model_validate(
        {
            "id": "key_0123456789ab",
            "account_id": "acme",
            "name": "shop",
            "scopes": ("read",),
            "allowed_networks": networks,
            "created_at": "2026-12-01T00:00:00Z",
            "created_by": "test",
            "revoked_at": None,
            "expires_at": None,
        }
    )
    assert key.allows(address) is allowed
