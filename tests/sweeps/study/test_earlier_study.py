"""The database of a sweep of version 0.1.0 still opens, with the trials of its study."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest

from sweeps.study.storage import open_storage
from sweeps.study.study import count_trials, current_trials
from tests.support.earlier import WHOLE, unpack


def test_the_trials_of_an_earlier_study_are_read(tmp_path: Path) -> None:
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
