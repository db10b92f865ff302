"""Binding to other addresses, and the token that it needs."""

from __future__ import annotations

import pytest

from models.server.access import access, in_url
from training.contract.errors import InputError


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.2", "::1"])
def test_this_machine_needs_no_token(host: str) -> None:
    assert set(access(host, None).hosts) == {"localhost", "127.0.0.1", "[::1]", in_url(host)}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "models.example.org"])
def test_other_machines_need_a_token(host: str) -> None:
    with pytest.raises(InputError, match=rf"^--host {host} lets other machines use the server, so --token-file is"):
        access(host, None)
    assert access(host, "0123456789abcdef").hosts == ("*",)


def test_a_short_token_is_refused() -> None:
    with pytest.raises(InputError, match="the token must have at least 16 characters, all printable ASCII"):
        access("127.0.0.1", "short")


def test_an_ipv6_address_has_brackets_in_a_url() -> None:
    assert [in_url(host) for host in ("::1", "127.0.0.1", "localhost")] == ["[::1]", "127.0.0.1", "localhost"]
