"""Binding to other addresses, the token that it needs, and the file of the token, which others must not read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from models.server.access import allowed_hosts, in_url, read_token
from training.contract.errors import InputError

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.2", "::1"])
def test_this_machine_needs_no_token(host: str) -> None:
    assert set(allowed_hosts(host, None)) == {"localhost", "127.0.0.1", "[::1]", in_url(host)}
    with pytest.raises(InputError, match="the token must have at least 16 characters, all printable ASCII"):
        allowed_hosts(host, "short")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "models.example.org"])
def test_other_machines_need_a_token(host: str) -> None:
    with pytest.raises(InputError, match=rf"^--host {host} lets other machines use the server, so --token-file is"):
        allowed_hosts(host, None)
    assert allowed_hosts(host, TOKEN) == ("*",)


def test_only_a_private_token_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(f"{TOKEN}\n")
    for mode in (0o600, 0o400, 0o640):
        path.chmod(mode)
        assert read_token(path) == TOKEN
    for mode in (0o644, 0o602, 0o620, 0o601):
        path.chmod(mode)
        with pytest.raises(
            InputError, match=rf"token is not safe: .* its mode {mode:04o}\. Own it, and run `chmod 600` on it"
        ):
            read_token(path)
    if os.getuid() == 0:  # only root can act as two users
        os.chown(path, 65534, 65534)
        with pytest.raises(InputError, match="its owner is user 65534"):
            read_token(path)
    with pytest.raises(InputError, match=r"^the token file .*/missing cannot be read: no such file or directory\.$"):
        read_token(tmp_path / "missing")
    with pytest.raises(InputError, match="it is not a regular file"):
        read_token(Path("/dev/null"))
