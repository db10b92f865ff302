"""The file with a server's token, and its refusal where other users could read it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from models.server.token_file import MAX_BYTES, read_token
from training.contract.errors import InputError

TOKEN = "0123456789abcdef"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640])
def test_a_private_token_is_read(path: Path, mode: int) -> None:
    path.chmod(mode)
    assert read_token(path) == TOKEN


@pytest.mark.parametrize("mode", [0o644, 0o602, 0o620, 0o601])
def test_a_file_that_others_can_use_is_refused(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(InputError, match=rf"token is not safe: its mode is {mode:04o}, .*: run `chmod 600` on it\.$"):
        read_token(path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as two users")
def test_the_file_of_another_user_is_refused(path: Path) -> None:
    os.chown(path, 65534, 65534)
    with pytest.raises(InputError, match=r"it belongs to another user \(65534\)"):
        read_token(path)


def test_a_missing_or_wrong_file_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^the token file .*/missing cannot be read: no such file or directory\.$"):
        read_token(tmp_path / "missing")
    with pytest.raises(InputError, match="cannot be read: it is a folder"):
        read_token(tmp_path)
    with pytest.raises(InputError, match="it is not a regular file"):
        read_token(Path("/dev/null"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="it is not a regular file"):
        read_token(tmp_path / "pipe")
    path.write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(InputError, match="it must contain only the token"):
        read_token(path)
