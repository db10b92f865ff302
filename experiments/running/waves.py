"""Run the jobs of a comparison wave by wave, until every arm has stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from judging.design import Design
from judging.waves import Progress
from reports.comparison.arms import arms_of
from reports.comparison.looks import jobs_to_repeat, progress_of
from reports.comparison.tables import look_sentence
from reports.model.numbers import counted
from tracking.following.followed_job import Outcome
from tracking.following.group_session import without_left_out
from tracking.groups.group import Group
from tracking.groups.planned_job import PlannedJob
from tracking.queries import job_tables
from tracking.server.store import Store

RunJobs = Callable[[Sequence[PlannedJob]], list[Outcome]]
"""Runs the remaining ones of these jobs, and returns the outcomes of all that have ended."""


def run_waves(
    store: Store,
    group: Group,
    jobs: Sequence[PlannedJob],
    design: Design,
    run: RunJobs,
    echo: Callable[[str], None],
    rows: Callable[[pd.DataFrame], pd.DataFrame] = lambda table: table,
) -> tuple[list[PlannedJob], list[Outcome]]:
    """Run the waves of a comparison with `run`. Return the jobs of all waves so far, and the outcomes of ended jobs.

    The tracking server's records alone decide which jobs come next, so all launchers of a group agree. `rows` selects
    those of the comparison from the table of the group's jobs.
    """
    labels = _labels(jobs)
    reported: Progress | None = None
    outcomes: dict[str, Outcome] = {}
    while True:
        arms = arms_of(rows(job_tables.jobs(store.client, group.id)))
        state, again = progress_of(design, labels, arms), jobs_to_repeat(design, arms)
        _report(state, reported, design, echo)
        reported = state
        begun = [job for job in jobs if (job.arm, job.repeat) in (again if job.is_again else state.begun)]
        left = [job for job in begun if job.spec.name not in outcomes]
        if left:
            outcomes |= {outcome.planned.spec.name: outcome for outcome in run(left)}
        begun = without_left_out(begun, outcomes.values())
        # Nothing is left although jobs are due if a run was deleted while its job ran. The report lists it as missing.
        if not (state.due and left) or len(outcomes) < len(begun):
            return begun, list(outcomes.values())


def _labels(jobs: Sequence[PlannedJob]) -> list[str]:
    """Return the labels of the arms, the baseline first."""
    labels = dict.fromkeys(job.arm for job in jobs)
    baselines = {job.arm for job in jobs if job.is_baseline}
    return sorted(labels, key=lambda label: label not in baselines)


def _report(state: Progress, reported: Progress | None, design: Design, echo: Callable[[str], None]) -> None:
    """Print the looks and the stopped arms that were not `reported` yet."""
    for number in range(len(reported.looks) if reported else 0, len(state.looks)):
        echo(f"After {counted(design.looks[number], 'repeat')}:")
        for arm, look in state.looks[number].items():
            echo(f"  {arm}: {look_sentence(look)}")
    for arm, reason in state.stopped.items():
        if reason == "too few jobs succeeded" and not (reported and arm in reported.stopped):
            echo(f"  {arm}: stops: too few jobs to compare")
