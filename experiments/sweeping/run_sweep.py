"""Run a sweep: calibrate the batch sizes, search batch sizes and learning rates, and repeat the winner.

Every process that runs the same command on the same storage is a worker of the same sweep. One worker runs the
calibrations and the repeats; the others wait for it and use the results.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from experiments.planning.budgets import budget_of, check_budget, why_no_price
from experiments.planning.load import load
from experiments.running.fail_on import read_fail_on
from experiments.running.output import print_line
from experiments.running.service_context import ServiceContext, open_service_context
from experiments.schema.overrides import is_field
from experiments.schema.sweep_fields import with_full_names
from experiments.sweeping.sweep_jobs import SweepJobs
from experiments.sweeping.sweep_plan import SweepPlan, most_jobs, plan_sweep
from tracking.budgets.budget_tag import GroupBudget
from training.contract.errors import InputError


def sweep(overrides: Mapping[str, str]) -> int:
    """Run or resume a sweep with overrides of the experiment's fields.

    Returns the exit code, see `sweep_worker.run`. `fail-on` is not a field of the experiment: it changes no job.
    """
    overrides = dict(overrides)
    fail_on = read_fail_on(overrides.pop("fail-on", ""))
    fields = with_full_names(overrides, is_field)
    name = fields.pop("experiment", "demo")
    plan = plan_sweep(load(name, fields))
    jobs = SweepJobs(Path(name).stem, plan, print_line)
    key = jobs.key  # stages the data: an error in it leaves nothing behind
    context = open_service_context(plan.experiment, print_line)
    jobs.check(context)
    check_price(plan, jobs, context)
    budget, sentences = check_sweep_budget(plan, jobs, context)
    for sentence in sentences:
        print_line(sentence)
    from experiments.sweeping.open_sweep import open_sweep
    from experiments.sweeping.sweep_worker import run

    own = {field: text for field, text in fields.items() if not field.startswith("sweep.")}
    return run(open_sweep(jobs, context, key, {"experiment": name, **own}, budget, print_line), fail_on)


def check_price(plan: SweepPlan, jobs: SweepJobs, context: ServiceContext) -> None:
    """Raise InputError if an objective in dollars needs a price that is unknown."""
    spec = jobs.trial("check", *plan.baseline).spec
    if "usd" in plan.fields.objective and context.price(spec) is None:
        raise InputError(f"sweep.objective contains usd, but {why_no_price(spec.instance_type)}")


def check_sweep_budget(plan: SweepPlan, jobs: SweepJobs, context: ServiceContext) -> tuple[GroupBudget, list[str]]:
    """Return the budget of a sweep, and sentences about it. Raises InputError as `check_budget` does."""
    budget = budget_of(plan.experiment, is_sweep=True)
    sample = context.priced(jobs.trial("check", *plan.baseline))
    return budget, check_budget([sample], budget, at_most=most_jobs(plan))
