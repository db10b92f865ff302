"""Storages and studies: error messages, workers that start together, earlier databases, and optuna-dashboard."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest

from sweeps.optuna_study import Limits, count_trials, current_trials, open_study
from sweeps.storage import open_storage
from sweeps.trials import Objective
from tests.support.earlier import WHOLE, unpack
from tests.support.fork_server.interpreter import INTERPRETER
from tests.support.ports import free_port
from tests.support.services.following import until
from tests.support.sweeps.bench import SECONDS, SPACE, Bench, short
from training.contract.errors import InputError, StorageError


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sweeps.db", "storage must be the address of a database, such as sqlite:///sweeps.db or"),
        ("mysql://me:secret@host/s", "storage mysql://host/s is a mysql database, but sweeps need sqlite or"),
        ("sqlite://", "storage sqlite:// does not name a file"),
        ("postgresql+psycopg2://me:secret@host/s", "needs the driver postgresql+psycopg2, which is not installed"),
    ],
)
def test_a_malformed_address_is_refused(url: str, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        open_storage(url)
    assert message in str(refusal.value)
    assert "secret" not in str(refusal.value)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone/s.db: the folder .*/gone does not exist"):
        open_storage(f"sqlite:///{tmp_path}/gone/s.db")
    (tmp_path / "notes.txt").write_text("not a database, and longer than its first hundred bytes\n" * 10)
    with pytest.raises(StorageError, match=r"notes.txt cannot be used: file is not a database; .* set another path\.$"):
        open_storage(f"sqlite:///{tmp_path}/notes.txt")


def test_a_study_with_other_settings_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.part()
    other: list[tuple[dict[str, object], str]] = [
        ({"space": replace(SPACE, batch_sizes=(8, 16))}, "space.batch_sizes ([8, 16, 32], not [8, 16])"),
        ({"space": replace(SPACE, scalings=("sqrt",))}, "space.scalings ([], not ['sqrt'])"),
        ({"objective": replace(SECONDS, target=0.5)}, "objective.target (None, not 0.5)"),
        ({"objective": Objective(cost="usd", quality=SECONDS.quality)}, "objective.cost (billable_seconds, not usd)"),
        ({"experiment": "other"}, "experiment (e, not other)"),
    ]
    for changed, message in other:
        spec = {"space": SPACE, "objective": SECONDS, "experiment": "e"} | changed
        with pytest.raises(InputError) as refusal:
            open_study(bench.storage, sweep="s", compiler="none", **spec)  # type: ignore[arg-type]
        start = f"study s/none in {bench.storage.retries.name} has a different {message}. "
        assert str(refusal.value).startswith(start)


def test_the_trials_of_an_earlier_study_are_read(tmp_path: Path) -> None:
    """The database of a sweep of version 0.1.0."""
    unpack(tmp_path, WHOLE)
    storage = open_storage(f"sqlite:///{tmp_path / 'home' / 'sweeps.db'}")
    try:
        study = optuna.load_study(study_name="search-261127-143708-651c/none", storage=storage.rdb)
        trials = current_trials(study.trials)
        assert count_trials(trials) == 2
        costs = {trial.params["log2_batch_size"]: trial.value for trial in trials}
        assert costs == pytest.approx({3: 19.797566108641604, 2: 19.384264036542845})
        assert {trial.user_attrs["end"] for trial in trials} == {"completed"}
    finally:
        storage.close()


@pytest.mark.slow
def test_the_dashboard_shows_the_sweep(tmp_path: Path) -> None:
    bench, port = Bench(tmp_path), free_port()
    bench.run(short, bench.part(), limits=Limits(trials=2))
    command = [str(Path(INTERPRETER).with_name("optuna-dashboard")), bench.url, "--port", str(port)]
    dashboard = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    answers: list[dict[str, Any]] = []

    def answers_about(path: str) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/api/studies{path}") as answer:
            answers.append(json.load(answer))
        return bool(answers)

    try:
        until(lambda: answers_about(""), seconds=480, pause_seconds=0.3)
        [study] = answers.pop()["study_summaries"]
        assert study["study_name"] == "s/none"
        assert answers_about(f"/{study['study_id']}")
        assert [trial["state"] for trial in answers.pop()["trials"]] == ["Complete", "Complete"]
    finally:
        dashboard.kill()
        dashboard.wait()
