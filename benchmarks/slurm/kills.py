"""Kills of launchers, supervisors and scripts, and requeues, each at random moments: what is lost, doubled or billed
twice."""

from __future__ import annotations

import contextlib
import math
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from mlflow.entities import Run

from benchmarks.slurm.group import Group, Note
from benchmarks.support.results import Row, figure
from tests.support.services.slurm_cluster import SlurmCluster

KINDS = {
    "launcher": "kills of the launcher",
    "script": "kills of the script",
    "supervisor": "kills of the supervisor",
    "requeue": "requeues",
}
"""Kills and requeues of a group, by the name of the part."""
LIMIT_SECONDS = 240.0
"""Time after which a group that has not ended is lost."""
TOLERANCE_SECONDS = 2.0
"""Billed time of an attempt beyond the time between its first and its last note: start, end and Slurm's whole seconds.
A requeued job waits at least 5 s."""
UNTOUCHED = 2
"""Jobs of a group that are not killed."""
SENTENCES = {"script": "Killed by SIGKILL", "supervisor": "Slurm ended job"}


@dataclass
class Faults:
    """Jobs by the fault, each with a sentence."""

    kills: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    billed_twice: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """Processes and Slurm's jobs that were still there after the group's end."""

    def rows(self, kind: str) -> Iterator[Row]:
        yield figure(f"{KINDS[kind]}: done", self.kills, "kills" if kind != "requeue" else "requeues")
        for name, found in self._lists():
            yield figure(f"{KINDS[kind]}: {name}", len(found), "jobs" if name != "left" else "", most=0, n=self.kills)

    def sentences(self, kind: str) -> Iterator[str]:
        for name, found in self._lists():
            yield from (f"{KINDS[kind]}: {name}: {each}" for each in found)

    def _lists(self) -> Iterator[tuple[str, list[str]]]:
        yield "lost", self.lost
        yield "doubled", self.doubled
        yield "billed twice", self.billed_twice
        yield "left", self.left


def kill_at_random(kind: str, kills: int, seed: int, folder: Path, cluster: SlurmCluster) -> Faults:
    """Run groups until `kills` kills are done, and check each group."""
    drawn, faults, number = random.Random(f"{seed} {kind}"), Faults(), 0
    while faults.kills < kills and number < kills:
        number += 1
        left = kills - faults.kills
        if kind == "launcher":
            group = Group(folder=folder / f"{kind}-{number}", cluster=cluster, jobs=8, parallel=2, seconds=2.0)
            done = kill_launchers(group, min(4, left), drawn)
        else:
            jobs = min(10, left + left % 2) + UNTOUCHED
            group = Group(folder=folder / f"{kind}-{number}", cluster=cluster, jobs=jobs, parallel=jobs)
            done = kill_jobs(group, kind, min(jobs - UNTOUCHED, left), drawn)
        faults.kills += done
        check(group, kind, done, faults)
        print(f"  {group.folder.name}: {done} of {KINDS[kind]}", flush=True)
        if faults.lost:
            break
    return faults


def kill_launchers(group: Group, kills: int, drawn: random.Random) -> int:
    """Kill the launcher at random moments, each time run the same command again, and let the last one end.

    Return the number of kills: a launcher may end before its moment.
    """
    done = 0
    for _ in range(kills):
        launcher = group.start()
        leaves = _moment(group, drawn)
        while launcher.poll() is None and not leaves():
            time.sleep(0.005)
        launcher.kill()
        launcher.wait()
        done += launcher.returncode == -signal.SIGKILL
        if _is_closed(group):  # the same command would run another group
            return done
    _wait(group.start())
    return done


def _moment(group: Group, drawn: random.Random) -> Callable[[], bool]:
    """Return a moment of a launcher's life: while it starts, within a submission, or while it follows jobs."""
    jobs = group.home / "slurm" / "jobs"
    known = _count(jobs)
    kind = drawn.choice(["start", "submission", "submission", "following"])
    pause = drawn.uniform(0.0, {"start": 4.0, "submission": 0.15, "following": 4.0}[kind])
    # Not every launcher has jobs to submit.
    began, since = time.monotonic(), None if kind == "submission" else time.monotonic()
    if kind == "following":
        pause += 3.0

    def leaves() -> bool:
        nonlocal since
        if since is None and (_count(jobs) > known or time.monotonic() > began + 8.0):
            since = time.monotonic()
        return since is not None and time.monotonic() >= since + pause

    return leaves


def _count(folder: Path) -> int:
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def kill_jobs(group: Group, kind: str, kills: int, drawn: random.Random) -> int:
    """Kill the processes of the first `kills` jobs that start, or requeue them, and wait until the group ends."""
    moments = [drawn.uniform(0.0, group.seconds + (0.0 if kind == "script" else 0.5)) for _ in range(kills)]
    due: dict[str, float] = {}
    killed: set[str] = set()
    done = 0
    launcher = group.start()
    deadline = time.monotonic() + LIMIT_SECONDS
    while launcher.poll() is None and time.monotonic() < deadline and len(killed) < kills:
        for note in group.notes():
            if note.kind != ("script" if kind == "script" else "allocation"):
                continue
            if note.job not in due:
                due[note.job] = note.time + moments[len(due)] if len(due) < kills else math.inf
            if time.time() >= due[note.job] and note.job not in killed:
                killed.add(note.job)
                done += _kill(group, kind, note)
        time.sleep(0.01)
    _wait(launcher)
    return done


def _kill(group: Group, kind: str, note: Note) -> bool:
    """Return whether the process, or the job, was still there."""
    if kind == "requeue":
        group.cluster.run("scontrol", "requeue", note.attempt.partition(".")[0])
        return True
    try:
        os.kill(note.pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _is_closed(group: Group) -> bool:
    """Return whether the command's only group has ended."""
    return [run.data.tags.get("platform.group_state") for run in group.runs("group")] == ["closed"]


def _wait(launcher: subprocess.Popen[bytes]) -> None:
    try:
        launcher.wait(LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()


def check(group: Group, kind: str, kills: int, faults: Faults) -> None:
    """Add the faults of a group that ended after so many kills."""
    runs = group.runs("job")
    if not _is_closed(group):
        faults.lost.append(f"{group.folder.name} did not end:\n{group.output.read_text()[-2000:]}")
    with contextlib.suppress(AssertionError):
        group.cluster.wait_until_idle()
    by_job: dict[str, list[Note]] = {}
    for note in group.notes():
        by_job.setdefault(note.job, []).append(note)
    names = Counter(run.data.tags["platform.job_name"] for run in runs)
    if len(names) != group.jobs:
        faults.lost.append(f"{group.folder.name} has {len(names)} jobs instead of {group.jobs}")
    if (failed := sum(run.info.status == "FAILED" for run in runs)) > kills:
        faults.lost.append(f"{group.folder.name}: {failed} jobs failed after {kills} kills")
    faults.lost += [f"{name} ran without a run" for name in by_job.keys() - names.keys()]
    faults.doubled += [f"{name} has {count} runs" for name, count in names.items() if count > 1]
    for run in runs:
        check_job(run, by_job.get(run.data.tags["platform.job_name"], []), kind, faults)
    faults.left += _left(group)


def check_job(run: Run, notes: Sequence[Note], kind: str, faults: Faults) -> None:
    """Add the faults of a job, from its run and its notes."""
    name, tags = run.data.tags["platform.job_name"], run.data.tags
    failure = f"{tags.get('platform.failure_class', '')}: {tags.get('platform.failure_message', '')}"
    has_ended = any(note.kind == "end" for note in notes)
    sentence = SENTENCES.get(kind)
    is_told = run.info.status == "FAILED" and sentence is not None and sentence in failure
    if not (run.info.status == "FINISHED" and has_ended) and not is_told:
        faults.lost.append(
            f"{name} is {run.info.status}, its script {'ended' if has_ended else 'did not end'}: {failure}"
        )
    attempts = {note.attempt: [each for each in notes if each.attempt == note.attempt] for note in notes}
    if len(ids := {attempt.partition(".")[0] for attempt in attempts}) > 1:
        faults.doubled.append(f"{name} ran as jobs {', '.join(sorted(ids))} of Slurm")
    for attempt, of_attempt in attempts.items():
        counts = Counter(note.kind for note in of_attempt)
        if counts["script"] > 1 or counts["allocation"] != 1:
            faults.doubled.append(f"{name}, attempt {attempt}: {dict(counts)}")
    if Counter(note.kind for note in notes)["end"] > 1:
        faults.doubled.append(f"{name} ended more than once")
    # An attempt after the end only sees that there is nothing to do.
    ran = [each for each in attempts.values() if any(note.kind == "script" for note in each)]
    own_seconds = sum(max(note.time for note in each) - min(note.time for note in each) for each in ran)
    billed_seconds = run.data.metrics.get("cost/billable_seconds", 0.0)
    most = own_seconds + TOLERANCE_SECONDS * max(1, len(attempts))
    if not own_seconds - 1.0 <= billed_seconds <= most:
        which = faults.billed_twice if billed_seconds > most else faults.lost
        which.append(f"{name}: {billed_seconds:.1f} s are billed, and its attempts took {own_seconds:.1f} s")


def _left(group: Group) -> Iterator[str]:
    for line in group.cluster.run("squeue", "--noheader", "--states=PD,R,CG,CF,S", "--format=%i %j %T").splitlines():
        yield f"job {line} in the queue"
    listed = group.cluster.run("squeue", "--noheader", "--states=all", "--format=%j|%r").splitlines()
    # Slurm also lists submissions that it refused.
    names = Counter(line.partition("|")[0] for line in listed if not line.endswith("|BadConstraints"))
    yield from (f"{count} jobs of Slurm are named {name}" for name, count in names.items() if count > 1)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(str(group.folder) in text for text in (*process.cmdline(), *process.environ().values())):
                yield f"process {process.pid}: {' '.join(process.cmdline())[:200]}"
