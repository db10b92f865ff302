"""Path of the state folder for each kind of tracking store."""

from __future__ import annotations

from pathlib import Path

import pytest

from training.contract.errors import InputError
from training.state.home import check_compile_cache, compile_cache, home, home_id


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


@pytest.mark.parametrize("content", [b"", b"\xf5\x00", b"x" * 32, b"0" * 33])
def test_a_damaged_id_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "id").write_bytes(content)
    with pytest.raises(InputError, match="id is damaged, because it is not 32 hexadecimal digits: delete it"):
        home_id(tmp_path)
