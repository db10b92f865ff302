"""Fetched models are deleted by default, unless a process uses them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from experiments.__main__ import main
from tests.conftest import ROOT
from tests.support.state import State

USED, UNUSED, OF_A_RUN = f"m-{'a' * 32}", f"m-{'b' * 32}", "c" * 32


@pytest.fixture
def models(state: State) -> Path:
    """The folder of three fetched models, of an incomplete one, and of an unrelated folder."""
    for name in (USED, UNUSED, OF_A_RUN, f".unfinished-{'d' * 32}", "mine"):
        (state.home / "models" / name).mkdir(parents=True)
        (state.home / "models" / name / "model.safetensors").write_bytes(b"w" * 1000)
    return state.home / "models"


def of_models(state: State) -> set[str]:
    return {name for name in state.left() if name.startswith("models/")}


def test_fetched_models_are_deleted_unless_used(state: State, models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "import sys; from pathlib import Path; from training.state.shared_folders import lock_for_use\n"
    code += (
        f"print(lock_for_use(Path({str(state.home)!r}), [Path({str(models / USED)!r})]), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as user:
        assert user.stdout
        assert user.stdout.readline() == "True\n"
        assert main(["jobs", "prune", "--yes"]) == 0
        output = capsys.readouterr().out
        left = {f"models/{USED}", f"models/.unfinished-{'d' * 32}", "models/mine"}
        assert (of_models(state), "Kept 1: another process started to use them" in output) == (left, True)
        assert output.count("it can be fetched again") == 3
        user.communicate("")
    assert main(["jobs", "prune", "--yes"]) == 0
    assert of_models(state) == left - {f"models/{USED}"}
