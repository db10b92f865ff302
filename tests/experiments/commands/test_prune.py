"""`jobs prune` over real jobs and a real tracking store: what is over goes, what is open or told of stays."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from experiments.__main__ import main
from tests.support.state import DATA, LATER_DATA, NOBODYS_DATA, OTHER_DATA, State


def test_what_is_over_goes_and_what_is_open_stays(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    over = state.ended()
    state.stage(OTHER_DATA, LATER_DATA, NOBODYS_DATA)
    runs = state.running()
    before = state.left()
    assert main(["jobs", "prune", "--yes"]) == 0
    said = capsys.readouterr().out
    assert before - state.left() == {f"jobs/{over}", f"checkpoints/{over}", f"staged/{DATA}"}
    assert "3 folders, " in said
    assert "Deleted 3 folders, " in said
    assert "stays: 1 folder, 500 bytes: the tracking server knows no run that read it (--what unknown)" in said
    assert f"group {runs.rsplit('-', 1)[0]} is open: the same command, or attach, goes on with it" in said
    # What the run names is there, and its log too.
    run = state.run_of(over)
    assert Path(run.data.tags["platform.model_uri"].removeprefix("file://")).stat().st_size > 2000
    log = state.store.client.download_artifacts(run.info.run_id, "log.txt")
    assert "trainfare-event" in Path(log).read_text()
    assert main(["jobs", "list"]) == 0
    assert [runs in (said := capsys.readouterr().out), over in said] == [True, False]
    assert state.service.describe(runs)["TrainingJobStatus"] == "InProgress"
    assert main(["jobs", "prune", "--yes"]) == 0
    assert "Nothing may go." in capsys.readouterr().out


def test_without_a_terminal_nothing_is_deleted(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    over = state.ended()
    before = state.left()
    assert main(["jobs", "prune"]) == 0
    said = capsys.readouterr().out
    assert over in said
    assert "its run has ended and holds its log" in said
    assert said.endswith("no terminal to ask at: the same command with --yes deletes it.\n")
    assert state.left() == before


def test_models_checkpoints_of_failed_jobs_and_unknown_data_go_when_they_are_named(state: State) -> None:
    over, failed = state.ended(), state.ended(die=1)
    state.stage(NOBODYS_DATA)
    assert main(["jobs", "prune", "--yes"]) == 0
    assert state.left() == {f"outputs/{over}", f"checkpoints/{failed}", f"staged/{NOBODYS_DATA}"}
    assert main(["jobs", "prune", "--yes", "--what", "unfinished,unknown"]) == 0
    assert state.left() == {f"outputs/{over}"}
    assert main(["jobs", "prune", "--yes", "--what", "models"]) == 0
    assert state.left() == set()
    tags = state.run_of(over).data.tags
    assert "platform.model_uri" not in tags
    assert f"outputs/{over}/output/model.tar.gz" in tags["platform.model_deleted"]


def test_an_artifact_whose_model_mlflow_holds_goes_by_itself(state: State) -> None:
    """Whole, and not deleted there; then the run no longer names the artifact, and checkpoints are no last copy."""
    client = state.store.client
    names = [state.ended() for _ in range(3)]
    runs = [state.run_of(name).info for name in names]
    models = [client.create_logged_model(run.experiment_id, name="model", source_run_id=run.run_id) for run in runs]
    for run, model in zip(runs, models, strict=True):
        client.set_tag(run.run_id, "platform.model_id", model.model_id)
    whole, deleted, _ = models  # the third is still being written
    client.finalize_logged_model(whole.model_id, "READY")
    client.finalize_logged_model(deleted.model_id, "READY")
    client.delete_logged_model(deleted.model_id)
    assert main(["jobs", "prune", "--yes", "--what", "copies"]) == 0
    assert {each for each in state.left() if each.startswith("outputs/")} == {f"outputs/{name}" for name in names[1:]}
    tags = state.run_of(names[0]).data.tags
    assert "platform.model_uri" not in tags
    assert tags["platform.model_id"] == whole.model_id
    assert main(["jobs", "prune", "--yes"]) == 0
    assert state.left() == {f"outputs/{name}" for name in names[1:]}


def test_what_belongs_to_deleted_runs_goes_with_its_model(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    over = state.ended()
    state.store.client.delete_run(state.run_of(over).info.run_id)
    assert main(["jobs", "prune", "--yes"]) == 0
    assert "its run is deleted" in capsys.readouterr().out
    assert state.left() == set()


def test_another_tracking_store_knows_nothing_and_deletes_nothing(
    state: State, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = f"sqlite:///{shutil.copy(state.folder / 'mlflow.db', state.folder / 'other.db')}"
    state.ended()
    before = state.left()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", other)
    assert main(["jobs", "prune", "--yes"]) == 0
    said = capsys.readouterr().out
    assert f"the runs of {other}" in said
    assert "Nothing may go." in said
    assert "the tracking server knows no run of it (--what unknown)" in said
    assert state.left() == before


def test_a_server_out_of_reach_deletes_nothing(
    state: State, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state.ended()
    before = state.left()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert main(["jobs", "prune", "--yes"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: The tracking server http://127.0.0.1:9 has not answered")
    assert said.endswith(". Nothing was deleted.\n")
    assert len(said.splitlines()) == 1
    assert state.left() == before


def test_nothing_there_asks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert main(["jobs", "prune"]) == 0
    assert capsys.readouterr().out == f"There is nothing to prune in {tmp_path / 'home'}.\n"


def test_a_prune_that_was_cut_short_is_ended_by_the_next(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    over = state.ended()
    half = state.home / "checkpoints" / f".trash-{DATA}"
    (state.home / "checkpoints" / over).rename(half)
    (half / "checkpoint-1" / "weights").unlink()
    assert main(["jobs", "prune", "--yes", "--older-than", "1d"]) == 0
    assert "a process that was killed has left it" in capsys.readouterr().out
    assert state.left() == {f"jobs/{over}", f"outputs/{over}", f"staged/{DATA}"}


def test_links_stay_with_what_they_lead_to(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    over = state.ended()
    outside = state.folder / "large disk"
    (state.home / "checkpoints").rename(outside)
    (state.home / "checkpoints").symlink_to(outside)
    assert main(["jobs", "prune", "--yes"]) == 0
    assert f"{state.home / 'checkpoints'} is a link: it stays, with all that it leads to." in capsys.readouterr().out
    assert (outside / over / "checkpoint-1" / "weights").stat().st_size == 3000
    assert not (state.home / "jobs" / over).exists()
