"""The mode of new files."""

from __future__ import annotations

import pytest

from training.contract.errors import InputError
from training.state.file_mode import UMASK_VARIABLE, file_mode, umask


def test_new_files_are_private_or_shared_with_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(UMASK_VARIABLE, raising=False)
    assert (umask(), file_mode()) == (0o077, 0o600)
    monkeypatch.setenv(UMASK_VARIABLE, "007")
    assert (umask(), file_mode()) == (0o007, 0o660)


@pytest.mark.parametrize("mask", ["", "77", "088", "rwx"])
def test_other_texts_are_refused(monkeypatch: pytest.MonkeyPatch, mask: str) -> None:
    monkeypatch.setenv(UMASK_VARIABLE, mask)
    with pytest.raises(InputError, match=f"TRAINFARE_UMASK is '{mask}'; it must be three octal digits"):
        umask()
