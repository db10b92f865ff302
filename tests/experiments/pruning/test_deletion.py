"""`jobs prune` at awkward moments: what begins between the question and the answer, who is killed, who says no."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from experiments.__main__ import main
from experiments.pruning.deletion import delete, look
from experiments.pruning.inventory import inventory
from experiments.pruning.rules import Choice
from tests.conftest import ROOT
from tests.support.state import DATA, State
from tests.support.terminal import read_until, start_at_terminal
from training.services.local.job_folder import JobFolder


class TestAtTheSameMoment:
    """What begins between the question and the answer."""

    def test_a_job_that_begins_to_read_data_keeps_it(self, state: State) -> None:
        over = state.ended()
        judged, _ = look(inventory(state.home, time.time()), state.store, Choice())
        going = [each for each in judged if each.goes]
        assert {each.folder.name for each in going} == {over, DATA}
        runs = state.running(DATA)
        gone, errors = delete(going, state.home, state.store, Choice())
        assert {(each.folder.place, each.folder.name) for each in gone} == {("jobs", over), ("checkpoints", over)}
        assert errors == []
        assert (state.home / "staged" / DATA / "train" / "data.parquet").exists()
        assert state.service.describe(runs)["TrainingJobStatus"] == "InProgress"

    def test_data_that_a_command_has_staged_waits_for_its_jobs(
        self, state: State, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Between staging and the first run, nothing but the lock tells that the data is wanted."""
        state.ended()
        code = "import sys; from pathlib import Path; from training.state.shared_folders import use\n"
        code += f"print(use(Path({str(state.home)!r}), [Path({str(state.home / 'staged' / DATA / 'train')!r})]))\n"
        code += "sys.stdout.flush(); sys.stdin.read()"
        command = [sys.executable, "-c", code]
        user = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert user.stdout
        assert user.stdout.readline() == "True\n"
        assert main(["jobs", "prune", "--yes", "--what", "data"]) == 0
        said = capsys.readouterr().out
        assert "Nothing was deleted." in said
        assert "1 stay: something has begun to use them, or another prune was faster." in said
        assert f"staged/{DATA}" in state.left()
        user.communicate("")
        assert main(["jobs", "prune", "--yes", "--what", "data"]) == 0
        assert f"staged/{DATA}" not in state.left()

    def test_a_supervisor_keeps_its_folder(self, state: State) -> None:
        over = state.ended()
        judged, _ = look(inventory(state.home, time.time()), state.store, Choice())
        lock = JobFolder(state.home / "jobs" / over).hold()
        gone, errors = delete([each for each in judged if each.goes], state.home, state.store, Choice())
        assert (gone, errors) == ([], [])
        os.close(lock)

    def test_a_job_that_is_being_created_for_a_day_keeps_its_folder(self, state: State) -> None:
        """It has no name yet, so that only the lock of its supervisor tells that somebody is at it."""
        left = state.home / "jobs" / ".demo-1-a0r0-abcd_123"
        left.mkdir(parents=True)
        lock = JobFolder(left).hold()
        for path in (left / "supervisor.lock", left):
            os.utime(path, (0, 0))
        assert main(["jobs", "prune", "--yes", "--what", "jobs"]) == 0
        assert left.exists()
        os.close(lock)
        assert main(["jobs", "prune", "--yes", "--what", "jobs"]) == 0
        assert not left.exists()

    def test_two_prunes(self, state: State) -> None:
        state.ended()
        judged, _ = look(inventory(state.home, time.time()), state.store, Choice())
        going = [each for each in judged if each.goes]
        assert len(delete(going, state.home, state.store, Choice())[0]) == 3
        assert delete(going, state.home, state.store, Choice()) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "deleted"), [("y", True), ("n", False), ("", False), ("\x03", False), ("\x04", False)]
)
def test_at_a_terminal_it_asks(state: State, answer: str, deleted: bool) -> None:
    over = state.ended()
    before = state.left()
    pid, terminal = start_at_terminal([sys.executable, "-m", "experiments", "jobs", "prune"], ROOT)
    shown = read_until(terminal, "[y/N] ")
    assert "Delete 3 folders, " in shown
    os.write(terminal, (answer if answer in "\x03\x04" and answer else f"{answer}\n").encode())
    read_until(terminal, "Deleted 3 folders" if deleted else "Nothing was deleted.")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert state.left() == ({f"outputs/{over}"} if deleted else before)


@pytest.mark.slow
def test_a_prune_that_is_killed_leaves_nothing_half_under_its_name(state: State) -> None:
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
