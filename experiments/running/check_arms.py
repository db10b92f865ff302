"""Run the checks of a group's arms, and refuse to train an arm that is different."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.planning.checks import CheckedArms
from experiments.running.output import UNWANTED_RESULT, print_line
from experiments.running.scheduler import run_jobs
from reports.comparison.checks import CHECK_FILE, ArmCheck, at_step, checks_of, difference
from tracking.budgets.ledger import Ledger
from tracking.groups.group import Group, close_group
from tracking.groups.plan_file import write_checks
from tracking.groups.planned_job import PlannedJob
from tracking.queries import job_tables
from tracking.server.store import Store
from training.contract.errors import DifferentArm
from training.contract.plain_text import without_markup
from training.contract.service import Service


@dataclass(frozen=True)
class Checks:
    checks: tuple[ArmCheck, ...]
    is_stopped: bool
    """True if a person stopped a job."""


def run_checks(
    store: Store,
    service: Service,
    group: Group,
    jobs: Sequence[PlannedJob],
    arms: CheckedArms,
    parallel: int,
    *,
    is_refusing: bool,
) -> Checks:
    """Run the remaining jobs of the checks, and print their answers.

    With `is_refusing`, closes the group and raises DifferentArm if an arm is different.
    """
    labels = dict(zip((job.spec.name for job in jobs), arms.arms.values(), strict=True))
    write_checks(store, group, labels, arms.reasons)
    print_line(f"Group {group.id}: checking {', '.join(label for each in labels.values() for label in each)}")
    outcomes = run_jobs(store, service, group, jobs, parallel=parallel, echo=print_line)
    checks = checks_of(
        job_tables.jobs(store.client, group.id),
        {"arms": labels, "not_checked": arms.reasons},
        lambda job: job_tables.json_artifact(store.client, job.run_id, CHECK_FILE),
    )
    for each in checks:
        print_line(f"  {', '.join(each.arms)}: {each.text}{each.billed}")
    is_cut_short = len(outcomes) < len(jobs) and Ledger(store, service, group).ended is None
    is_stopped = is_cut_short or any(each.failure and each.failure.is_stop for each in outcomes)
    if is_refusing and not is_stopped and (different := [each for each in checks if each.different]):
        message = refusal(different)
        close_group(store, group, "FAILED", note=without_markup(message))
        raise DifferentArm(message)
    return Checks(checks, is_stopped)


def refusal(different: Sequence[ArmCheck]) -> str:
    arms = [
        f"{each.labels} would not train as plain settings do: {at_step(first)}, {difference(first)}"
        for each in different
        for first in each.different[:1]
    ]
    removed = "Remove the arm" if len(arms) == len(different[0].arms) == 1 else "Remove the arms"
    return f"{'; '.join(arms)}. {removed}, or train anyway with --compare.check report."


def report_checks(store: Store, group: Group, done: Checks) -> int:
    """Report on a group that has only checks, close it, and return the exit code."""
    # Imported late, because importing the charts takes as long as all other imports together.
    from experiments.running.write_report import report_group

    report_group(store, group, group.experiment_name)
    has_failed = any(each.job and each.job.failed for each in done.checks)
    close_group(store, group, "KILLED" if done.is_stopped else "FAILED" if has_failed else "FINISHED")
    if done.is_stopped:
        return 130
    return UNWANTED_RESULT if any(each.different for each in done.checks) else int(has_failed)
