"""The folder whose locks all jobs of a machine share, and its refusal where another user could replace them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from training.contract.errors import InputError
from training.services.local.slots import Machine, SlotRequest, wait_for_slot
from training.state.home import slots_folder

NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as two users")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINFARE_SLOTS", str(tmp_path / "slots"))
    return tmp_path / "slots"


def test_a_new_folder_is_private(folder: Path) -> None:
    assert slots_folder() == folder
    assert folder.stat().st_mode & 0o777 == 0o700


def test_without_a_setting_it_is_the_users_own(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINFARE_SLOTS")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert slots_folder() == tmp_path / "trainfare-slots"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "missing"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert slots_folder() == tmp_path / "home" / ".cache" / "trainfare" / "slots"


def test_a_folder_in_which_others_can_replace_files_is_refused(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(InputError, match=r"^TRAINFARE_SLOTS .*/slots is not safe .*: other users may write to it"):
        slots_folder()
    folder.chmod(0o1777)
    assert slots_folder() == folder


def test_links_of_other_users_are_not_followed(folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    folder.mkdir()
    folder.chmod(0o1777)
    request, machine = SlotRequest(gpus=0, cores=1), Machine(gpus=(), cores=(0,))
    (folder / "queue").symlink_to(victim)
    with pytest.raises(InputError, match="queue is a link"):
        wait_for_slot(folder, request, machine, "job", lambda *_: True)
    assert victim.stat().st_mode & 0o777 == 0o700
    (folder / "queue").unlink()
    (folder / "core-0").symlink_to(tmp_path / "missing")
    with pytest.raises(OSError, match="symbolic links"):
        wait_for_slot(folder, request, machine, "job", lambda *_: True)


@AS_ROOT
def test_two_users_never_hold_the_same_core(tmp_path_factory: pytest.TempPathFactory) -> None:
    """This user holds core 0, so the other one gets core 1. If this user holds both, the other one waits."""
    folder = Path("/var/tmp") / f"trainfare-test-{os.getpid()}"
    folder.mkdir()
    folder.chmod(0o1777)
    try:
        machine, one = Machine(gpus=(), cores=(0, 1)), SlotRequest(gpus=0, cores=1)
        first = wait_for_slot(folder, one, machine, "job", lambda *_: True)
        assert first is not None
        assert first.cores == (0,)
        assert _as_nobody(folder) == "(1,)"
        second = wait_for_slot(folder, one, machine, "job", lambda *_: True)
        assert second is not None
        assert second.cores == (1,)
        assert _as_nobody(folder) == "None"
        for lock in (*first.locks, *second.locks):
            os.close(lock)
    finally:
        shutil.rmtree(folder)


def _as_nobody(folder: Path) -> str:
    """Return the cores that another user gets, or what went wrong."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            slot = wait_for_slot(
                folder, SlotRequest(gpus=0, cores=1), Machine(gpus=(), cores=(0, 1)), "job", lambda *_: True
            )
            os.write(writer, str(slot and slot.cores).encode())
        except BaseException as error:
            os.write(writer, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text
