"""The verb `sweep`: time the batch sizes, search them with their learning rates under each compiler, judge the winner.

Every process that runs the same command on the same storage is a worker of the same sweep. What one of them does alone
(timing before, judging afterwards) is found done by the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from experiments.planning.load import load
from experiments.running.output import say
from experiments.running.service_context import Where, open_where
from experiments.schema.overrides import is_field
from experiments.schema.sweep_fields import spelt_out
from experiments.sweeping.sweep_jobs import SweepJobs
from experiments.sweeping.sweep_plan import Sweeping, sweeping
from training.contract.errors import InputError


def sweep(given: Mapping[str, str]) -> int:
    """Run or continue a sweep with `--field value` pairs; return 0, 1 when it found nothing, 130 when stopped."""
    fields = spelt_out(given, is_field)
    name = fields.pop("experiment", "demo")
    searched = sweeping(load(name, fields))
    jobs = SweepJobs(Path(name).stem, searched, say)
    key = jobs.key  # stages the data: what is wrong with it leaves nothing behind
    where = open_where(searched.experiment, say)
    jobs.check(where)
    _check_price(searched, jobs, where)
    from experiments.sweeping.open_sweep import open_sweep
    from experiments.sweeping.sweep_worker import run

    return run(open_sweep(jobs, where, key, _command(name, given), say))


def _check_price(searched: Sweeping, jobs: SweepJobs, where: Where) -> None:
    fields = searched.fields
    spec = jobs.trial("check", *searched.baseline).spec
    needing = "sweep.objective usd" if "usd" in fields.objective else "sweep.max_usd" if fields.max_usd else None
    if needing and where.price(spec) is None:
        raise InputError(f"{needing} needs the price of {spec.instance_type}, and none is known")


def _command(name: str, given: Mapping[str, str]) -> list[str]:
    """Return the words that train this experiment; the winner's own settings come after them."""
    kept = {field: text for field, text in spelt_out(given, is_field).items() if not field.startswith("sweep.")}
    for of_the_winner in ("experiment", "compiler", "batch_size", "learning_rate_multiplier"):
        kept.pop(of_the_winner, None)  # mlflow takes no parameter twice
    words = [word for field, text in kept.items() for word in ("-P", f"{field}={text}")]
    return ["mlflow", "run", ".", "-e", "train", "--env-manager", "local", "-P", f"experiment={name}", *words]
