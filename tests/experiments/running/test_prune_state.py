"""`jobs prune` beside other processes, and what it keeps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.running.prune_state import ABANDONED_SECONDS, Folder, PruneOptions, delete_selected, select
from tests.conftest import ROOT
from tests.support.state import DATA, OTHER_DATA, State
from tests.support.terminal import read_until, start_at_terminal, type_keys
from training.contract.errors import TrackingError
from training.services.local.job_folder import JobFolder

ALL_AGES = PruneOptions(older_than_seconds=0.0)


def going_of(state: State) -> list[Folder]:
    return [each for each in select(state.home, state.store, ALL_AGES) if not each.kept]


class TestAtTheSameMoment:
    """Jobs and commands that start between the question and the answer."""

    def test_data_is_kept_for_a_job_that_starts_to_read_it(self, state: State) -> None:
        over = state.ended()
        going = going_of(state)
        assert {each.name for each in going} == {over, DATA}
        runs = state.running(DATA)
        gone, errors = delete_selected(going, state.home, state.store, ALL_AGES)
        assert {(each.kind, each.name) for each in gone} == {("jobs", over), ("checkpoints", over)}
        assert errors == []
        assert (state.home / "staged" / DATA / "train" / "data.parquet").exists()
        assert state.service.describe(runs)["TrainingJobStatus"] == "InProgress"

    def test_staged_data_is_kept_until_its_jobs_start(self, state: State, capsys: pytest.CaptureFixture[str]) -> None:
        """Between staging and the first run, only the lock shows that the data is in use."""
        state.ended()
        code = "import sys; from pathlib import Path; from training.state.locks import lock_for_use\n"
        code += (
            f"print(lock_for_use(Path({str(state.home)!r}), [Path({str(state.home / 'staged' / DATA / 'train')!r})]))\n"
        )
        code += "sys.stdout.flush(); sys.stdin.read()"
        command = [sys.executable, "-c", code]
        user = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert user.stdout
        assert user.stdout.readline() == "True\n"
        assert main(["jobs", "prune", "--yes", "--older-than", "0h"]) == 0
        output = capsys.readouterr().out
        assert "Deleted 2 folders" in output
        assert "Kept 1: another process started to use them, or another prune deleted them first." in output
        assert f"staged/{DATA}" in state.left()
        user.communicate("")
        assert main(["jobs", "prune", "--yes", "--older-than", "0h"]) == 0
        assert f"staged/{DATA}" not in state.left()

    def test_a_supervised_job_keeps_its_folder(self, state: State) -> None:
        over = state.ended()
        going = going_of(state)
        lock = JobFolder(state.home / "jobs" / over).lock_for_supervisor()
        gone, errors = delete_selected(going, state.home, state.store, ALL_AGES)
        assert (gone, errors) == ([], [])
        os.close(lock)

    def test_a_job_that_is_still_being_created_keeps_its_folder(self, state: State) -> None:
        """The folder has no name yet, so only the lock of its supervisor shows that it is in use."""
        left = state.home / "jobs" / ".demo-1-a0r0-abcd_123"
        left.mkdir(parents=True)
        lock = JobFolder(left).lock_for_supervisor()
        for path in (left / "supervisor.lock", left):
            os.utime(path, (0, 0))
        assert main(["jobs", "prune", "--yes", "--older-than", "0h"]) == 0
        assert left.exists()
        os.close(lock)
        assert main(["jobs", "prune", "--yes", "--older-than", "0h"]) == 0
        assert not left.exists()

    def test_a_second_prune_finds_nothing(self, state: State) -> None:
        state.ended()
        going = going_of(state)
        assert len(delete_selected(going, state.home, state.store, ALL_AGES)[0]) == 3
        assert delete_selected(going, state.home, state.store, ALL_AGES) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "deleted"), [("y", True), ("n", False), ("", False), ("\x03", False), ("\x04", False)]
)
def test_prune_asks_for_confirmation_at_a_terminal(state: State, answer: str, deleted: bool) -> None:
    over = state.ended()
    before = state.left()
    command = [sys.executable, "-m", "experiments", "jobs", "prune", "--older-than", "0h"]
    pid, terminal = start_at_terminal(command, ROOT)
    shown = read_until(terminal, "[y/N] ")
    assert "Delete 3 folders (" in shown
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
    command = [sys.executable, "-m", "experiments", "jobs", "prune", "--yes", "--older-than", "0h"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    while checkpoint.exists() and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (state.home / "checkpoints" / over).exists()
    assert main(["jobs", "prune", "--yes", "--older-than", "0h"]) == 0
    assert state.left() == {f"outputs/{over}"}


KEY = "0f" * 16
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
    code = "import sys; from pathlib import Path; from training.state.locks import lock_for_use\n"
    code += (
        f"print(lock_for_use(Path({str(state.home)!r}), [Path({str(models / USED)!r})]), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as user:
        assert user.stdout
        assert user.stdout.readline() == "True\n"
        assert main(["jobs", "prune", "--yes", "--older-than", "0h"]) == 0
        output = capsys.readouterr().out
        left = {f"models/{USED}", f"models/.unfinished-{'d' * 32}", "models/mine"}
        assert (of_models(state), "Kept 1: another process started to use them" in output) == (left, True)
        user.communicate("")
    assert main(["jobs", "prune", "--yes", "--older-than", "0h"]) == 0
    assert of_models(state) == left - {f"models/{USED}"}


@pytest.mark.parametrize(
    ("name", "age_seconds", "is_listed"),
    [
        (f"staged/.unfinished-{KEY}", ABANDONED_SECONDS, True),
        (f"staged/.unfinished-{KEY}", ABANDONED_SECONDS - 60, False),
        ("jobs/.demo-1-a0r0-abcd_123", ABANDONED_SECONDS, True),
        ("jobs/.demo-1-a0r0-abcd_123", ABANDONED_SECONDS - 60, False),
        (f"checkpoints/.trash-{KEY}", 0.0, True),
        ("checkpoints/.mine", ABANDONED_SECONDS, False),
        ("staged/mine", ABANDONED_SECONDS, False),
        ("compile-cache/x", ABANDONED_SECONDS, False),
    ],
)
def test_an_incomplete_folder_goes_once_abandoned(state: State, name: str, age_seconds: float, is_listed: bool) -> None:
    """Folders that this tool did not create are not listed at all."""
    folder = state.home / name
    folder.mkdir(parents=True)
    (folder / "x").write_bytes(b"x" * 5)
    for path in (folder / "x", folder):
        os.utime(path, (time.time() - age_seconds,) * 2)
    listed = [(each.path, each.size_bytes, each.kept) for each in select(state.home, state.store, PruneOptions())]
    assert [each for each in listed if each[0] == folder] == ([(folder, 5, "")] if is_listed else [])


def test_data_is_as_old_as_its_latest_reader(state: State) -> None:
    """The data was staged 30 days ago, and the job that reads it has just ended."""
    state.ended()
    state.stage(OTHER_DATA)
    for path in state.home.glob("staged/**"):
        os.utime(path, (time.time() - 30 * 86_400,) * 2)
    for path in state.home.glob("staged/*/*/*"):
        os.utime(path, (time.time() - 30 * 86_400,) * 2)
    kept = {each.name: each.kept for each in select(state.home, state.store, PruneOptions()) if each.kind == "staged"}
    assert kept == {DATA: "younger than --older-than", OTHER_DATA: ""}


def test_a_job_that_cannot_be_read_keeps_shared_folders(state: State) -> None:
    """It may be another user's, and run."""
    over = state.ended()
    (state.home / "jobs" / over / "state.json").write_text("{")
    assert going_of(state) == []


def test_the_only_copies_are_kept(state: State) -> None:
    """Files of a script's own, and checkpoints without another copy of the weights."""
    over = state.ended()
    (state.home / "jobs" / over / "opt" / "ml" / "output" / "data" / "scores.csv").touch()
    for path in (state.home / "outputs" / over).rglob("*.gz"):
        path.unlink()
    for path in sorted((state.home / "outputs" / over).rglob("*"), reverse=True):
        path.rmdir()
    (state.home / "outputs" / over).rmdir()
    assert {each.name for each in going_of(state)} == {DATA}
    everything = PruneOptions(everything=True, older_than_seconds=0.0)
    assert {each.kept for each in select(state.home, state.store, everything)} == {""}


def test_a_damaged_plan_of_an_open_group_deletes_nothing(state: State) -> None:
    """It may name any folder."""
    group = state.open()
    state.store.client.log_text(group.run_id, '{"jobs": [', "plan.json")
    with pytest.raises(TrackingError, match=rf"The plan\.json of run {group.run_id} is damaged .* Nothing was deleted"):
        select(state.home, state.store, ALL_AGES)


def test_an_open_group_keeps_the_data_of_its_jobs(state: State) -> None:
    """A sweep has no plan: only the runs of its jobs name the data."""
    state.ended()
    group = state.open()
    experiment_id = state.store.client.get_run(group.run_id).info.experiment_id
    tags = {"kind": "job", "group": group.id, "job_name": f"{group.id}-t0", "data_key": DATA}
    state.store.client.create_run(experiment_id, tags={f"platform.{name}": value for name, value in tags.items()})
    kept = {each.name: each.kept for each in select(state.home, state.store, ALL_AGES)}
    assert kept[DATA] == f"group {group.id} is open, and its command or `trainfare attach` resumes it"
