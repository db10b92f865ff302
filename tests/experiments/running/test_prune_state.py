"""`jobs prune` over real jobs and a real tracking store: what it keeps, and beside other processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.running.prune_state import ABANDONED_SECONDS, Folder, PruneOptions, delete_selected, select
from tests.conftest import ROOT
from tests.support.answers import checked
from tests.support.state import DATA, LATER_DATA, NOBODYS_DATA, OTHER_DATA, State
from tests.support.terminal import read_until, start_at_terminal, type_keys
from training.contract.errors import TrackingError
from training.services.supervision.job_folder import JobFolder

ALL_AGES = PruneOptions(older_than_seconds=0.0)
PRUNE = ("jobs", "prune", "--yes", "--older-than", "0h")
KEY = "0f" * 16


def going_of(state: State) -> list[Folder]:
    return [each for each in select(state.home, state.store, ALL_AGES) if not each.kept]


def test_ended_jobs_are_deleted_and_open_groups_are_kept(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    over = state.ended()
    state.stage(OTHER_DATA, LATER_DATA, NOBODYS_DATA)
    runs = state.running()
    before = state.left()
    assert main(PRUNE) == 0
    output = capsys.readouterr().out
    assert before - state.left() == {f"jobs/{over}", f"checkpoints/{over}", f"staged/{DATA}", f"staged/{NOBODYS_DATA}"}
    assert "Deleted 4 folders (" in output
    assert "MLflow has no copy of the model (deleted only with --everything)" in output
    assert f"group {runs.rsplit('-', 1)[0]} is open, and its command or `trainfare attach` resumes it" in output
    # What the run names is there, and its log too.
    run = state.run_of(over)
    assert Path(run.data.tags["platform.model_uri"].removeprefix("file://")).stat().st_size > 2000
    log = state.store.client.download_artifacts(run.info.run_id, "log.txt")
    assert "trainfare-event" in Path(log).read_text()
    assert main(["jobs", "list"]) == 0
    assert [runs in (output := capsys.readouterr().out), over in output] == [True, False]
    assert state.service.describe(runs)["TrainingJobStatus"] == "InProgress"
    assert main(PRUNE) == 0
    assert "Nothing can be deleted." in capsys.readouterr().out


def test_without_a_terminal_and_by_default_young_folders_are_kept(
    state: State, capsys: pytest.CaptureFixture[str]
) -> None:
    over = state.ended()
    before = state.left()
    assert main(["jobs", "prune", "--older-than", "0h", "--format", "json"]) == 0
    output, lines = capsys.readouterr()
    answer = checked("jobs-prune", output)
    assert any(over in each["path"] for each in answer["deletable"])
    assert len(answer["deletable"]) == 3
    assert answer["deleted"] == []
    assert lines.endswith("Without a terminal, confirm the deletion with --yes.\n")
    assert main(["jobs", "prune", "--yes"]) == 0
    assert "younger than --older-than" in capsys.readouterr().out
    assert state.left() == before


def test_everything_deletes_models_and_checkpoints_of_failed_jobs(state: State) -> None:
    over, failed = state.ended(), state.ended(die=1)
    assert main(PRUNE) == 0
    assert state.left() == {f"outputs/{over}", f"checkpoints/{failed}"}
    assert main(["jobs", "prune", "--yes", "--everything", "--older-than", "1h"]) == 0
    assert state.left() == {f"outputs/{over}", f"checkpoints/{failed}"}
    group = failed.rsplit("-", 1)[0]
    assert main(["jobs", "prune", "--yes", "--everything", "--group", group, "--older-than", "0h"]) == 0
    assert state.left() == {f"outputs/{over}"}
    assert main(["jobs", "prune", "--yes", "--everything", "--older-than", "0h"]) == 0
    assert state.left() == set()
    tags = state.run_of(over).data.tags
    assert "platform.model_uri" not in tags
    assert f"outputs/{over}/output/model.tar.gz" in tags["platform.model_deleted"]


def test_an_artifact_whose_model_mlflow_holds_is_safe_to_delete(state: State) -> None:
    """The model must be complete and not deleted in MLflow. Its run then no longer names the artifact."""
    client = state.store.client
    names = [state.ended() for _ in range(3)]
    runs = [state.run_of(name).info for name in names]
    models = [client.create_logged_model(run.experiment_id, name="model", source_run_id=run.run_id) for run in runs]
    for run, model in zip(runs, models, strict=True):
        client.set_tag(run.run_id, "platform.model_id", model.model_id)
    complete, deleted, _ = models  # the third is still being written
    client.finalize_logged_model(complete.model_id, "READY")
    client.finalize_logged_model(deleted.model_id, "READY")
    client.delete_logged_model(deleted.model_id)
    assert main(PRUNE) == 0
    assert {each for each in state.left() if each.startswith("outputs/")} == {f"outputs/{name}" for name in names[1:]}
    tags = state.run_of(names[0]).data.tags
    assert "platform.model_uri" not in tags
    assert tags["platform.model_id"] == complete.model_id
    assert main(PRUNE) == 0
    assert state.left() == {f"outputs/{name}" for name in names[1:]}


def test_with_another_tracking_store_only_data_is_deleted(
    state: State, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = f"sqlite:///{shutil.copy(state.folder / 'mlflow.db', state.folder / 'other.db')}"
    state.ended()
    before = state.left()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", other)
    assert main(PRUNE) == 0
    output = capsys.readouterr().out
    assert f"the runs of {other}" in output
    assert "the tracking server has no run of the job (deleted only with --everything)" in output
    assert before - state.left() == {f"staged/{DATA}"}


def test_with_an_unreachable_server_nothing_is_deleted_and_an_empty_folder_needs_none(
    state: State, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state.ended()
    before = state.left()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert main(PRUNE) == 1
    output = capsys.readouterr().err
    assert output.startswith("error: The tracking server http://127.0.0.1:9 has not answered")
    assert output.endswith(". Nothing was deleted.\n")
    assert len(output.splitlines()) == 1
    assert state.left() == before
    empty = state.folder / "empty"
    monkeypatch.setenv("TRAINFARE_HOME", str(empty))
    assert main(["jobs", "prune"]) == 0
    assert capsys.readouterr().out == f"{empty} contains nothing to prune.\n"


def test_links_and_their_targets_are_kept(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    over = state.ended()
    outside = state.folder / "large disk"
    (state.home / "checkpoints").rename(outside)
    (state.home / "checkpoints").symlink_to(outside)
    assert main(PRUNE) == 0
    assert f"{state.home / 'checkpoints'} is a symbolic link: it and its target are kept." in capsys.readouterr().out
    assert (outside / over / "checkpoint-1" / "weights").stat().st_size == 3000
    assert not (state.home / "jobs" / over).exists()


def test_data_and_models_in_use_are_kept(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    """Between staging and the first run, only the lock shows that data is in use."""
    state.ended()
    used, unused, of_a_run = (f"models/m-{'a' * 32}", f"models/m-{'b' * 32}", f"models/{'c' * 32}")
    for name in (used, unused, of_a_run, "models/mine"):
        (state.home / name).mkdir(parents=True)
        (state.home / name / "model.safetensors").write_bytes(b"w" * 1000)
    paths = ", ".join(f"Path({str(state.home / each)!r})" for each in (f"staged/{DATA}/train", used))
    code = "import sys; from pathlib import Path; from state.locks import lock_for_use\n"
    code += f"print(lock_for_use(Path({str(state.home)!r}), [{paths}]), flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as user:
        assert user.stdout
        assert user.stdout.readline() == "True\n"
        assert main(PRUNE) == 0
        output = capsys.readouterr().out
        assert "Deleted 4 folders" in output
        assert "Kept 2: another process started to use them, or another prune deleted them first." in output
        left = {name for name in state.left() if name.startswith(("models/", "staged/"))}
        assert left == {f"staged/{DATA}", used, "models/mine"}
        user.communicate("")
    assert main(PRUNE) == 0
    assert {f"staged/{DATA}", used} & state.left() == set()


def test_a_supervised_job_keeps_its_folder(state: State) -> None:
    over = state.ended()
    going = going_of(state)
    lock = JobFolder(state.home / "jobs" / over).lock_for_supervisor()
    gone, errors = delete_selected(going, state.home, state.store, ALL_AGES)
    assert (gone, errors) == ([], [])
    os.close(lock)


def test_a_job_that_is_still_being_created_keeps_its_folder(state: State) -> None:
    """The folder has no name yet, so only the lock of its supervisor shows that it is in use."""
    left = state.home / "jobs" / ".demo-1-a0r0-abcd_123"
    left.mkdir(parents=True)
    lock = JobFolder(left).lock_for_supervisor()
    for path in (left / "supervisor.lock", left):
        os.utime(path, (0, 0))
    assert main(PRUNE) == 0
    assert left.exists()
    os.close(lock)
    assert main(PRUNE) == 0
    assert not left.exists()


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "deleted"), [("y", True), ("", False), ("\x03", False)])
def test_prune_asks_for_confirmation_at_a_terminal(state: State, answer: str, deleted: bool) -> None:
    over = state.ended()
    before = state.left()
    command = [sys.executable, "-m", "experiments", "jobs", "prune", "--older-than", "0h"]
    pid, terminal = start_at_terminal(command, ROOT)
    shown = read_until(terminal, "[y/N] ")
    assert "Delete 3 folders (" in shown
    type_keys(terminal, answer if answer == "\x03" else f"{answer}\n")
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
    command = [sys.executable, "-m", "experiments", *PRUNE]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    while checkpoint.exists() and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (state.home / "checkpoints" / over).exists()
    assert main(PRUNE) == 0
    assert state.left() == {f"outputs/{over}"}


@pytest.mark.parametrize(
    ("name", "age_seconds", "is_listed"),
    [
        (f"staged/.unfinished-{KEY}", ABANDONED_SECONDS, True),
        (f"staged/.unfinished-{KEY}", ABANDONED_SECONDS - 60, False),
        ("jobs/.demo-1-a0r0-abcd_123", ABANDONED_SECONDS, True),
        (f"checkpoints/.trash-{KEY}", 0.0, True),
        ("staged/mine", ABANDONED_SECONDS, False),
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
