"""Access to the server: the Host header, the token, and binding to other addresses."""

from __future__ import annotations

import pytest

from models.server.access import Access, access, in_url
from models.server.errors import Header, Refused
from training.contract.errors import InputError

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080", "localhost.:80"])
def test_the_names_of_this_machine_are_served(host: str) -> None:
    Access().check_host([(b"host", host.encode())])


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "[::2]"])
def test_other_names_are_refused(host: str) -> None:
    with pytest.raises(Refused, match="which is not a name of this server") as refused:
        Access().check_host([(b"host", host.encode())])
    assert refused.value.status == 403


def test_http_1_0_has_no_host() -> None:
    Access().check_host([])


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"authorization", b"Bearer 0123456789abcdeX")],
        [(b"authorization", b"Bearer ")],
        [(b"authorization", TOKEN.encode())],
        [(b"authorization", b"Bearer \xff")],
    ],
)
def test_a_missing_or_wrong_token_is_refused(headers: list[Header]) -> None:
    with pytest.raises(Refused, match="the token is missing or wrong") as refused:
        access("0.0.0.0", TOKEN).check_token(headers)
    assert refused.value.status == 401


def test_the_token_is_accepted_under_any_name() -> None:
    allowed = access("0.0.0.0", TOKEN)
    allowed.check_token([(b"authorization", f"Bearer {TOKEN}".encode())])
    allowed.check_host([(b"host", b"models.example.org")])


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "models.example.org"])
def test_other_machines_need_a_token(host: str) -> None:
    with pytest.raises(InputError, match=rf"^--host {host} lets other machines use the server, so --token-file is"):
        access(host, None)


def test_a_short_token_is_refused() -> None:
    with pytest.raises(InputError, match="the token must have at least 16 characters, all printable ASCII"):
        access("127.0.0.1", "short")


def test_an_ipv6_address_has_brackets_in_a_url() -> None:
    assert [in_url(host) for host in ("::1", "127.0.0.1", "localhost")] == ["[::1]", "127.0.0.1", "localhost"]
