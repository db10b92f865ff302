"""Choose a group's winner: the arm that its report names, and that arm's job with the best evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlflow import MlflowClient

from models.quality import choose_measure, has, without_own
from reports.comparison.comparison import Comparison, compare
from reports.comparison.messages import headline
from reports.probe.report import is_probe_table
from reports.sweep.messages import headline as sweep_headline
from reports.sweep.sweep import Sweep, is_sweep_table, sweep_of
from reports.sweep.trials import Trial
from tracking.groups.plan_file import SWEEP_FILE, read_design
from tracking.queries import job_tables
from tracking.recorded.recorded_job import Job, job_of
from training.contract.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Winner:
    run_id: str
    why: str
    """The report's headline, and how the job was chosen among the winning arm's jobs."""


def winner(client: MlflowClient, group: str, *, is_closing: bool = False) -> Winner:
    """Return the winner of a group.

    For a comparison, it comes from the arm that the verdict calls cheapest. If no arm is shown to be cheaper, it comes
    from the baseline: an unproven setting does not replace the one in use. For a sweep, it comes from the best setting
    if its repeats confirm it, otherwise from the base setting; a sweep without repeats has no model to use. Among that
    setting's jobs, the winner is the one with the best evaluation; of several equal ones, the first. With `is_closing`,
    all jobs of the open group have ended.

    Raises `InputError` with one sentence if the group has no winner, and `TrackingError` if the server does not answer.
    """
    table, parent = job_tables.jobs(client, group), job_tables.parent_run(client, group)
    if table.empty:
        raise _no_winner(group, "it has no jobs")
    is_open = not is_closing and parent is not None and parent.data.tags.get("platform.group_state") == "open"
    jobs = [job_of(row) for row in table.to_dict("records")]
    if (running := sum(job.unfinished for job in jobs)) or is_open:  # the verdict may still change
        how = f"{running} of its {len(jobs)} jobs have not ended" if running else "it is still open"
        raise _no_winner(group, f"{how}; `trainfare attach --group {group}` follows it", "yet")
    if is_probe_table(table):
        raise _no_winner(group, "its jobs are probes, which train only the first steps")
    design = read_design(parent.data.tags) if parent else None
    if is_sweep_table(table) or (parent and parent.data.tags.get("platform.verb") == "sweep"):
        spec = job_tables.json_artifact(client, parent.info.run_id, SWEEP_FILE) if parent else {}
        return _best_job(group, *_sweep_winner(sweep_of(table, group, spec, {}, design)))
    return _best_job(group, *_comparison_winner(compare(table, group, design=design)))


def _comparison_winner(comparison: Comparison) -> tuple[str, Sequence[Job], str]:
    """Return the label of the winning arm, its jobs, and the reason."""
    if comparison.baseline is None:
        raise _no_winner(comparison.group, "it has no trainings")
    best, baseline = comparison.best, comparison.baseline
    arm = best.arm if best else baseline
    if not comparison.contrasts:
        return arm.label, arm.succeeded, ""
    _check_baseline(comparison)
    verdict = headline(comparison)
    stays = f"{verdict.rstrip('.')}, so the baseline stays."
    return arm.label, arm.succeeded, stays if not best and baseline.succeeded else verdict


def _check_baseline(comparison: Comparison) -> None:
    """Raise `InputError` if the baseline's runs were deleted: the report would take a different arm as the baseline."""
    if not any(job.is_baseline for job in comparison.arms[0].jobs):
        raise _no_winner(comparison.group, "its baseline's runs were deleted, so its settings cannot be compared")


def _sweep_winner(sweep: Sweep) -> tuple[str, Sequence[Job], str]:
    headline, best = sweep_headline(sweep), sweep.best
    if best is None or (sweep.spec.is_front and len(sweep.front) > 1):
        raise _no_winner(sweep.group, headline[:1].lower() + headline[1:].rstrip("."))
    if sweep.confirmation is None:
        command = f" `{sweep.train_command}` trains {best.setting}." if sweep.train_command else ""
        raise _no_winner(sweep.group, "its best setting was not repeated, and trials save no model", instead=command)
    _check_baseline(sweep.confirmation)
    is_confirmed, objection = _confirm(sweep, best, sweep.confirmation)
    setting = best.setting if is_confirmed else sweep.base
    stays = f"{headline.rstrip('.')}{objection}, so the base setting stays."
    arm = sweep.arm_of(setting)
    return str(setting), arm.succeeded if arm else [], headline if setting == best.setting else stays


def _confirm(sweep: Sweep, best: Trial, repeats: Comparison) -> tuple[bool, str]:
    """Return whether the best setting's repeats are better than the base setting's, and why a faster setting is not.

    The reason is a phrase, or an empty text.
    """
    contrast = sweep.contrast_of(best.setting)
    if contrast is None or contrast.verdict.outcome == "not comparable":
        return False, ""
    if not sweep.spec.is_rate:
        return contrast.verdict.outcome == "cheaper", ""
    ratio = sweep.interval_of(best.setting)
    if ratio is None or ratio.low <= 1:
        return False, ""
    # A rate says nothing about quality.
    quality, objection = contrast.verdict.quality, ""
    if quality is None and repeats.measure:
        objection = f", but not every repeat reports its {repeats.measure.label}"
    elif quality and not quality.is_within_margin:
        objection = f", but its {quality.measure.label} is {quality.arm:.4g} against {quality.baseline:.4g}"
    return not objection, objection


def _best_job(group: str, label: str, jobs: Sequence[Job], why: str) -> Winner:
    if not jobs:
        raise _no_winner(group, f"no job of “{label}” succeeded; {why[:1].lower()}{why[1:].rstrip('.')}".rstrip("; "))
    chosen, how = best_job(jobs)
    return Winner(run_id=chosen.run_id, why=f"{why} The model comes from {chosen.title}: {how}.".strip())


def best_job(jobs: Sequence[Job]) -> tuple[Job, str]:
    """Return the job with the best evaluation, and how it was chosen. There must be at least one.

    Of several equal ones, it is the first.
    """
    target_metric = next((name for job in jobs if (name := job.text.get("hp_target_metric"))), None)
    # A diverged job has no finite metric. The other jobs are compared anyway.
    numbers = [without_own(job.numbers) if job.is_script else job.numbers for job in jobs]
    measure = choose_measure(numbers, target_metric, any_model=True)
    if measure is None or len(jobs) == 1:
        return jobs[0], "its only job" if len(jobs) == 1 else f"the first of its {len(jobs)} jobs"
    sign = -1 if measure.higher_is_better else 1
    evaluated = [job for job in jobs if has(job.numbers, measure.column)]
    chosen = min(evaluated, key=lambda job: sign * job.number(measure.column))
    return chosen, f"the best of its {len(jobs)} jobs, {measure.column} {chosen.number(measure.column):.6g}"


def _no_winner(group: str, why: str, when: str = "", *, instead: str = " Name one of its jobs instead.") -> InputError:
    return InputError(f"run: group '{group}' has no winner{when and f' {when}'}: {why}.{instead}")
