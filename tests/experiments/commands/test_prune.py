"""`jobs prune` over real jobs and a real tracking store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from experiments.__main__ import main
from tests.support.state import DATA, LATER_DATA, NOBODYS_DATA, OTHER_DATA, State

ALL_AGES = ("--older-than", "0h")


def test_ended_jobs_are_deleted_and_open_groups_are_kept(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    over = state.ended()
    state.stage(OTHER_DATA, LATER_DATA, NOBODYS_DATA)
    runs = state.running()
    before = state.left()
    assert main(["jobs", "prune", "--yes", *ALL_AGES]) == 0
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
    assert main(["jobs", "prune", "--yes", *ALL_AGES]) == 0
    assert "Nothing can be deleted." in capsys.readouterr().out


def test_without_a_terminal_nothing_is_deleted(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    over = state.ended()
    before = state.left()
    assert main(["jobs", "prune", *ALL_AGES]) == 0
    output = capsys.readouterr().out
    assert over in output
    assert "3 folders (" in output
    assert output.endswith("Without a terminal, confirm the deletion with --yes.\n")
    assert state.left() == before


def test_by_default_folders_of_the_last_week_are_kept(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    state.ended()
    before = state.left()
    assert main(["jobs", "prune", "--yes"]) == 0
    assert "younger than --older-than" in capsys.readouterr().out
    assert state.left() == before


def test_everything_deletes_models_and_checkpoints_of_failed_jobs(state: State) -> None:
    over, failed = state.ended(), state.ended(die=1)
    assert main(["jobs", "prune", "--yes", *ALL_AGES]) == 0
    assert state.left() == {f"outputs/{over}", f"checkpoints/{failed}"}
    assert main(["jobs", "prune", "--yes", "--everything", "--older-than", "1h"]) == 0
    assert state.left() == {f"outputs/{over}", f"checkpoints/{failed}"}
    group = failed.rsplit("-", 1)[0]
    assert main(["jobs", "prune", "--yes", "--everything", "--group", group, *ALL_AGES]) == 0
    assert state.left() == {f"outputs/{over}"}
    assert main(["jobs", "prune", "--yes", "--everything", *ALL_AGES]) == 0
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
    assert main(["jobs", "prune", "--yes", *ALL_AGES]) == 0
    assert {each for each in state.left() if each.startswith("outputs/")} == {f"outputs/{name}" for name in names[1:]}
    tags = state.run_of(names[0]).data.tags
    assert "platform.model_uri" not in tags
    assert tags["platform.model_id"] == complete.model_id
    assert main(["jobs", "prune", "--yes", *ALL_AGES]) == 0
    assert state.left() == {f"outputs/{name}" for name in names[1:]}


def test_state_of_deleted_runs_is_the_only_copy(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    """MLflow can restore a deleted run."""
    over = state.ended()
    state.store.client.delete_run(state.run_of(over).info.run_id)
    assert main(["jobs", "prune", "--yes", *ALL_AGES]) == 0
    assert "the tracking server has no run of the job (deleted only with --everything)" in capsys.readouterr().out
    assert state.left() == {f"jobs/{over}", f"checkpoints/{over}", f"outputs/{over}"}


def test_with_another_tracking_store_only_data_is_deleted(
    state: State, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = f"sqlite:///{shutil.copy(state.folder / 'mlflow.db', state.folder / 'other.db')}"
    state.ended()
    before = state.left()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", other)
    assert main(["jobs", "prune", "--yes", *ALL_AGES]) == 0
    output = capsys.readouterr().out
    assert f"the runs of {other}" in output
    assert "the tracking server has no run of the job (deleted only with --everything)" in output
    assert before - state.left() == {f"staged/{DATA}"}


def test_with_an_unreachable_server_nothing_is_deleted(
    state: State, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state.ended()
    before = state.left()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert main(["jobs", "prune", "--yes", *ALL_AGES]) == 1
    output = capsys.readouterr().err
    assert output.startswith("error: The tracking server http://127.0.0.1:9 has not answered")
    assert output.endswith(". Nothing was deleted.\n")
    assert len(output.splitlines()) == 1
    assert state.left() == before


def test_an_empty_state_folder_needs_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert main(["jobs", "prune"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'home'} contains nothing to prune.\n"


def test_the_next_prune_completes_one_that_was_killed(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    over = state.ended()
    half = state.home / "checkpoints" / f".trash-{DATA}"
    (state.home / "checkpoints" / over).rename(half)
    (half / "checkpoint-1" / "weights").unlink()
    assert main(["jobs", "prune", "--yes", "--older-than", "1d"]) == 0
    assert "Deleted 1 folder (" in capsys.readouterr().out
    assert state.left() == {f"jobs/{over}", f"outputs/{over}", f"staged/{DATA}"}


def test_links_and_their_targets_are_kept(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    over = state.ended()
    outside = state.folder / "large disk"
    (state.home / "checkpoints").rename(outside)
    (state.home / "checkpoints").symlink_to(outside)
    assert main(["jobs", "prune", "--yes", *ALL_AGES]) == 0
    assert f"{state.home / 'checkpoints'} is a symbolic link: it and its target are kept." in capsys.readouterr().out
    assert (outside / over / "checkpoint-1" / "weights").stat().st_size == 3000
    assert not (state.home / "jobs" / over).exists()


def test_the_removed_option_what_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs", "prune", "--what", "data,models"]) == 2
    assert capsys.readouterr().err == (
        "error: --what no longer exists: jobs prune keeps the only copies of models and results, unless --everything.\n"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--yess"], "jobs prune: No such option '--yess'. Did you mean '--yes'?"),
        (["everything"], "jobs prune: Got unexpected extra argument (everything)"),
        (["--older-than", "7"], "--older-than is '7': it must be a number of hours or days, such as 12h or 7d."),
        (["--older-than", "-7d"], "--older-than is '-7d'"),
        (["--group"], "jobs prune: Option '--group' requires an argument."),
        (["--group", "--yes"], "--group is '--yes': it must be the id of a group."),
        (["--service", "sagemaker"], "--service is 'sagemaker': jobs prune deletes only local state."),
    ],
)
def test_wrong_options_are_refused(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs", "prune", *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_only_local_state_is_pruned(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs", "--service", "sagemaker", "prune", "--yes"]) == 2
    assert capsys.readouterr().err == "error: --service is 'sagemaker': jobs prune deletes only local state.\n"
