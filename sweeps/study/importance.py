"""Importance of each parameter of a study."""

from __future__ import annotations

import warnings

import optuna
from optuna.trial import TrialState

from tracking.groups.plan_file import MIN_TRIALS

NAMES = {"log2_batch_size": "batch_size", "log2_multiplier": "learning_rate"}


def importances(study: optuna.Study) -> dict[str, float]:
    """Return the share of the variance that each parameter explains, 0 to 1, by Optuna's default evaluator.

    Empty if too few trials completed, or if their values are equal.
    """
    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len(done) < MIN_TRIALS or len({tuple(trial.values) for trial in done}) < 2:
        return {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna warns about few trials
            shares = optuna.importance.get_param_importances(study, target=lambda trial: trial.values[0])
    except (RuntimeError, ValueError):  # the evaluator rejects some small studies
        return {}
    return {NAMES.get(name, name): float(share) for name, share in shares.items()}
