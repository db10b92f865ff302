"""`jobs prune` beside other processes: jobs that start meanwhile, locks, kills, and refused questions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from experiments.__main__ import main
from experiments.pruning.deletion import decide_all, delete
from experiments.pruning.inventory import inventory
from experiments.pruning.rules import PruneOptions
from tests.conftest import ROOT
from tests.support.state import DATA, State
from tests.support.terminal import read_until, start_at_terminal, type_keys
from training.services.local.job_folder import JobFolder


class TestAtTheSameMoment:
    """Jobs and commands that start between the question and the answer."""

    def test_data_is_kept_for_a_job_that_starts_to_read_it(self, state: State) -> None:
        over = state.ended()
        decisions, _ = decide_all(inventory(state.home, time.time()), state.store, PruneOptions())
        going = [each for each in decisions if each.is_deletable]
        assert {each.folder.name for each in going} == {over, DATA}
        runs = state.running(DATA)
        gone, errors = delete(going, state.home, state.store, PruneOptions())
        assert {(each.folder.kind, each.folder.name) for each in gone} == {("jobs", over), ("checkpoints", over)}
        assert errors == []
        assert (state.home / "staged" / DATA / "train" / "data.parquet").exists()
        assert state.service.describe(runs)["TrainingJobStatus"] == "InProgress"

    def test_staged_data_is_kept_until_its_jobs_start(self, state: State, capsys: pytest.CaptureFixture[str]) -> None:
        """Between staging and the first run, only the lock shows that the data is in use."""
        state.ended()
        code = "import sys; from pathlib import Path; from training.state.shared_folders import lock_for_use\n"
        code += (
            f"print(lock_for_use(Path({str(state.home)!r}), [Path({str(state.home / 'staged' / DATA / 'train')!r})]))\n"
        )
        code += "sys.stdout.flush(); sys.stdin.read()"
        command = [sys.executable, "-c", code]
        user = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert user.stdout
        assert user.stdout.readline() == "True\n"
        assert main(["jobs", "prune", "--yes"]) == 0
        output = capsys.readouterr().out
        assert "Deleted 2 folders" in output
        assert "Kept 1: another process started to use them, or another prune deleted them first." in output
        assert f"staged/{DATA}" in state.left()
        user.communicate("")
        assert main(["jobs", "prune", "--yes"]) == 0
        assert f"staged/{DATA}" not in state.left()

    def test_a_supervised_job_keeps_its_folder(self, state: State) -> None:
        over = state.ended()
        decisions, _ = decide_all(inventory(state.home, time.time()), state.store, PruneOptions())
        lock = JobFolder(state.home / "jobs" / over).lock_for_supervisor()
        gone, errors = delete(
            [each for each in decisions if each.is_deletable], state.home, state.store, PruneOptions()
        )
        assert (gone, errors) == ([], [])
        os.close(lock)

    def test_a_job_that_is_still_being_created_keeps_its_folder(self, state: State) -> None:
        """The folder has no name yet, so only the lock of its supervisor shows that it is in use."""
        left = state.home / "jobs" / ".demo-1-a0r0-abcd_123"
        left.mkdir(parents=True)
        lock = JobFolder(left).lock_for_supervisor()
        for path in (left / "supervisor.lock", left):
            os.utime(path, (0, 0))
        assert main(["jobs", "prune", "--yes"]) == 0
        assert left.exists()
        os.close(lock)
        assert main(["jobs", "prune", "--yes"]) == 0
        assert not left.exists()

    def test_a_second_prune_finds_nothing(self, state: State) -> None:
        state.ended()
        decisions, _ = decide_all(inventory(state.home, time.time()), state.store, PruneOptions())
        going = [each for each in decisions if each.is_deletable]
        assert len(delete(going, state.home, state.store, PruneOptions())[0]) == 3
        assert delete(going, state.home, state.store, PruneOptions()) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "deleted"), [("y", True), ("n", False), ("", False), ("\x03", False), ("\x04", False)]
)
def test_prune_asks_for_confirmation_at_a_terminal(state: State, answer: str, deleted: bool) -> None:
    over = state.ended()
    before = state.left()
    pid, terminal = start_at_terminal([sys.executable, "-m", "experiments", "jobs", "prune"], ROOT)
    shown = read_until(terminal, "[y/N] ")
    assert "Delete 3 folders, " in shown
    type_keys(terminal, answer if answer in "\x03\x04" and answer else f"{answer}\n")
    read_until(terminal, "Deleted 3 folders" if deleted else "Nothing was deleted.")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert state.left() == ({f"outputs/{over}"} if deleted else before)


@pytest.mark.slow
def test_a_killed_prune_leaves_no_incomplete_folder_under_its_name(state: State) -> None:
    over = state.ended()
    checkpoint = state.home / "checkpoints" / over / "checkpoint-1"
    for number in range(20_000):
        (checkpoint / str(number)).touch()
    command = [sys.executable, "-m", "experiments", "jobs", "prune", "--yes"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    while checkpoint.exists() and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (state.home / "checkpoints" / over).exists()
    assert main(["jobs", "prune", "--yes"]) == 0
    assert state.left() == {f"outputs/{over}"}
