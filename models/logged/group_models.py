"""Log the models of a group's jobs after its report. If one model fails, the others are still logged."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from models.logged.checkpoint import NotServable
from models.logged.kept_models import kept_runs
from models.logged.log_model import FAILURE, Failures, is_logged, log_model
from tracking.following.followed_job import Outcome
from tracking.groups.group import Group, child_runs
from tracking.server.errors import is_refusal
from tracking.server.store import Store
from training.contract.errors import TrackingError
from training.contract.service import Service

Echo = Callable[[str], None]


def log_models(
    store: Store, service: Service, group: Group, outcomes: Sequence[Outcome], scratch: Path, echo: Echo
) -> None:
    """Log the models that the group keeps, unless their runs already have them.

    Without a rule in the plan (`ModelPlan.keeps`), every completed job that saved a model keeps it.
    Each failure is printed and stored in the run's tag `platform.model_failure`. If the server stops answering, the
    remaining models are skipped.
    """
    started, logged_bytes, last = time.monotonic(), list[int](), ""
    failures: dict[str, list[str]] = {}
    try:
        kept = kept_runs(store, group, outcomes)
        waiting = _without_models(store, group, [each for each in outcomes if each.run_id in kept])
    except TrackingError as error:
        echo(f"No model was logged to MLflow: {_reason(error)}.")
        return
    for outcome in waiting:
        try:
            size_bytes = log_model(store, service, outcome.planned, outcome.run_id, scratch)
            if size_bytes is not None:
                logged_bytes.append(size_bytes)
                last = outcome.run_id
        except Failures as error:
            failures.setdefault(_reason(error), []).append(outcome.planned.spec.name)
            if isinstance(error, TrackingError) and not is_refusal(error):
                break
            with suppress(TrackingError):
                store.tag(outcome.run_id, {FAILURE: _reason(error)})
    for reason, names in failures.items():
        more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        echo(f"The model of job {names[0]}{more} was not logged to MLflow: {reason}.")
    if logged_bytes:
        what = "Model" if len(logged_bytes) == 1 else f"{len(logged_bytes)} models"
        size = f"{sum(logged_bytes) / 2**20:.0f} MiB, {time.monotonic() - started:.1f} s"
        echo(f"{what} logged in MLflow ({size}): `mlflow models serve -m runs:/{last}/model`")


def _without_models(store: Store, group: Group, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the completed jobs that saved a model but whose runs have no MLflow model. One call reads all runs."""
    runs = {str(run.info.run_id): run for run in child_runs(store, group).values()}
    completed = [each for each in outcomes if each.planned.model and not each.failure and each.run_id in runs]
    kept = [each for each in completed if "platform.model_uri" in runs[each.run_id].data.tags]
    return [each for each in kept if not is_logged(runs[each.run_id])]


def _reason(error: Exception) -> str:
    reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return (
        f"the job's artifact is not a model that can be served: {reason}" if isinstance(error, NotServable) else reason
    )
