"""Paths of the state folder, the compile cache and the slots, and their refusal where others could replace files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from state.home import check_compile_cache, compile_cache, home, home_id, slots_folder
from training.contract.errors import InputError
from training.services.local.slots import Machine, SlotRequest, wait_for_slot


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (None, "{cwd}/.trainfare"),
        ("sqlite:///mlflow.db", "{cwd}/.trainfare"),
        ("sqlite:////data/my%20store/mlflow.db", "/data/my store/.trainfare"),
        ("http://tracking:5000", "{user}/.trainfare"),
        ("postgresql://tracking/mlflow", "{user}/.trainfare"),
    ],
)
def test_the_state_folder_is_beside_the_database(
    uri: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAINFARE_HOME", raising=False)
    if uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert str(home()) == expected.format(cwd=tmp_path, user=Path.home())


def test_the_environment_variable_takes_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "mine"))
    assert home() == tmp_path / "mine"


def test_the_compile_cache_has_a_path_without_spaces_and_quotes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert compile_cache(Path("/data/home")) == Path("/data/home/compile-cache")
    awkward = [tmp_path / name for name in ("a b", "it's", 'say "x"', "ü", "$x")]
    moved = [compile_cache(folder) for folder in awkward]
    assert len(set(moved)) == len(awkward)
    assert all(set(str(folder)).isdisjoint(" '\"$ü") for folder in moved)
    assert compile_cache(awkward[0]) == moved[0]
    assert all(folder.is_relative_to(tmp_path / "cache") for folder in moved)


def test_the_compile_cache_is_not_in_a_folder_that_others_can_replace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    folder = compile_cache(shared / "home")
    assert folder.parent == tmp_path / "cache" / "trainfare"
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared))
    with pytest.raises(InputError, match=rf"it is in {shared}, and other users may write to that folder"):
        compile_cache(shared / "home")
    shared.chmod(0o1777)
    assert compile_cache(shared / "home") == shared / "home" / "compile-cache"


def test_a_new_compile_cache_is_private(tmp_path: Path) -> None:
    check_compile_cache(tmp_path / "home" / "compile-cache", create=False)
    assert not (tmp_path / "home").exists()
    check_compile_cache(tmp_path / "home" / "compile-cache")
    assert (tmp_path / "home" / "compile-cache").stat().st_mode & 0o777 == 0o700


def test_a_state_folder_keeps_its_id(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert home_id(first) == home_id(first)
    assert home_id(first) != home_id(second)
    assert [path.name for path in first.iterdir()] == ["id"]


@pytest.mark.parametrize("content", [b"\xf5\x00", b"0" * 33])
def test_a_damaged_id_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "id").write_bytes(content)
    with pytest.raises(InputError, match="id is damaged, because it is not 32 hexadecimal digits: delete it"):
        home_id(tmp_path)


NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as two users")


@pytest.fixture
def slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINFARE_SLOTS", str(tmp_path / "slots"))
    return tmp_path / "slots"


def test_a_new_folder_is_private(slots: Path) -> None:
    assert slots_folder() == slots
    assert slots.stat().st_mode & 0o777 == 0o700


def test_without_a_setting_it_is_the_users_own(slots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINFARE_SLOTS")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert slots_folder() == tmp_path / "trainfare-slots"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "missing"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert slots_folder() == tmp_path / "home" / ".cache" / "trainfare" / "slots"


def test_a_folder_in_which_others_can_replace_files_is_refused(slots: Path) -> None:
    slots.mkdir()
    slots.chmod(0o777)
    with pytest.raises(InputError, match=r"^TRAINFARE_SLOTS .*/slots is not safe .*: other users may write to it"):
        slots_folder()
    slots.chmod(0o1777)
    assert slots_folder() == slots


def test_links_of_other_users_are_not_followed(slots: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    slots.mkdir()
    slots.chmod(0o1777)
    request, machine = SlotRequest(gpus=0, cores=1), Machine(gpus=(), cores=(0,))
    (slots / "queue").symlink_to(victim)
    with pytest.raises(InputError, match="queue is a link"):
        wait_for_slot(slots, request, machine, "job", lambda *_: True)
    assert victim.stat().st_mode & 0o777 == 0o700
    (slots / "queue").unlink()
    (slots / "core-0").symlink_to(tmp_path / "missing")
    with pytest.raises(OSError, match="symbolic links"):
        wait_for_slot(slots, request, machine, "job", lambda *_: True)


@AS_ROOT
def test_two_users_never_hold_the_same_core(tmp_path_factory: pytest.TempPathFactory) -> None:
    """This user holds core 0, so the other one gets core 1. If this user holds both, the other one waits."""
    slots = Path("/var/tmp") / f"trainfare-test-{os.getpid()}"
    slots.mkdir()
    slots.chmod(0o1777)
    try:
        machine, one = Machine(gpus=(), cores=(0, 1)), SlotRequest(gpus=0, cores=1)
        first = wait_for_slot(slots, one, machine, "job", lambda *_: True)
        assert first is not None
        assert first.cores == (0,)
        assert _as_nobody(slots) == "(1,)"
        second = wait_for_slot(slots, one, machine, "job", lambda *_: True)
        assert second is not None
        assert second.cores == (1,)
        assert _as_nobody(slots) == "None"
        for lock in (*first.locks, *second.locks):
            os.close(lock)
    finally:
        shutil.rmtree(slots)


def _as_nobody(slots: Path) -> str:
    """Return the cores that another user gets, or what went wrong."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            slot = wait_for_slot(
                slots, SlotRequest(gpus=0, cores=1), Machine(gpus=(), cores=(0, 1)), "job", lambda *_: True
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
