"""Five launchers from two state folders follow the same groups: each job trains once and has one run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Run

from tests.support.attacks.counts import Counts
from tests.support.tracking.followers import followers
from training.services.local.service import LocalService

HOMES = ("first", "first", "first", "second", "second")
JOBS = 4
STEPS = [1, 2, 3, 4, 5]
ROUNDS = 50
WITHIN_SECONDS = 1.5
"""In every second round, the launchers begin at random moments of this time. In the others, they begin together."""


def follow(folder: Path, uri: str, kind: str, rounds: int) -> Counts:
    """Let five launchers follow a group at once, `rounds` times, and check its jobs and runs."""
    counts, client, service = Counts(f"five followers over {kind}"), MlflowClient(uri), LocalService(folder / "service")
    logs = [folder / f"follower-{number}.txt" for number in range(len(HOMES))]
    with followers(folder, uri, HOMES, JOBS) as launchers:
        for number in range(rounds):
            before = [log.stat().st_size for log in logs]
            answers = launchers.follow(f"k{number}", within_seconds=WITHIN_SECONDS * (number % 2))
            printed = "".join(log.read_bytes()[size:].decode() for log, size in zip(logs, before, strict=True))
            died = [answer for answer in answers if not answer.endswith(f" {JOBS}")]
            groups = {answer.split()[1] for answer in answers if answer.startswith("done ")}
            trained = [job["TrainingJobName"] for job in service.jobs()]
            outcomes = [outcome(client, trained, group) for group in groups]
            counts.add(
                f"round {number}",
                lost=any(lost for lost, _ in outcomes),
                doubled=any(doubled for _, doubled in outcomes),
                output=printed,
                fault=", ".join(died),
            )
    return counts


def outcome(client: MlflowClient, trained: list[str], group: str) -> tuple[bool, bool]:
    """Return whether a job, a run or a point of a group is missing, and whether one exists twice."""
    names = [f"{group}-{number}" for number in range(JOBS)]
    own = [run for run in _runs(client, "job") if run.data.tags["platform.group"] == group]
    points = {run.info.run_id: client.get_metric_history(run.info.run_id, "loss") for run in own}
    steps = [[point.step for point in points[run.info.run_id]] for run in own]
    runs = Counter(str(run.data.tags["platform.job_name"]) for run in own)
    jobs = Counter(name for name in trained if name.startswith(f"{group}-"))
    groups = [run for run in _runs(client, "group") if run.data.tags["platform.group"] == group]
    lost = not {*names} <= {*runs} & {*jobs} or not groups or any({*STEPS} - {*each} for each in steps)
    lost = lost or any(run.info.status != "FINISHED" for run in own)
    doubled = max((*runs.values(), *jobs.values(), len(groups))) > 1 or any(len(each) > len(STEPS) for each in steps)
    return lost, doubled


def _runs(client: MlflowClient, kind: str) -> list[Run]:
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    return list(client.search_runs(ids, f"tags.\"platform.kind\" = '{kind}'", max_results=5000))
