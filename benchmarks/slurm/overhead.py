"""Seconds of one small job beyond its script's own, here, on Slurm, and on Slurm without us, in alternation."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.slurm.group import SCRIPT, Group, Note
from benchmarks.support.results import Row, figure
from tests.support.services.slurm_cluster import SlurmCluster
from tracking.recording.run_artifacts import ROOT
from training.services.slurm.allocation import JOB_ID
from training.services.supervision.job_folder import JobFolder

SECONDS = 2.0
"""Seconds that the script sleeps."""
MOST_SECONDS = 3.0
"""Target: seconds of a job beyond those of the same script under plain `sbatch`."""

Parts = dict[str, float]
"""Seconds of the parts of one job."""


def measure(pairs: int, folder: Path, cluster: SlurmCluster) -> tuple[Sequence[Row], Sequence[str]]:
    """Return the rows and the notes of `pairs` jobs of each kind."""
    here: list[Parts] = []
    slurm: list[Parts] = []
    plain: list[Parts] = []
    for number in range(pairs):
        here.append(one_job("local", folder / f"local-{number}", cluster))
        slurm.append(one_job("slurm", folder / f"slurm-{number}", cluster))
        plain.append(plain_job(folder / f"plain-{number}", cluster))
        overheads = ", ".join(f"{jobs[-1]['overhead']:.2f}" for jobs in (here, slurm, plain))
        print(f"  pair {number + 1}: {overheads} s (local, slurm, plain sbatch)", flush=True)
    sides = {"local": here, "slurm": slurm, "plain sbatch": plain}
    rows = [
        figure(f"{name}: {part}", [each[part] for each in jobs], "s")
        for name, jobs in sides.items()
        for part in jobs[0]
    ]
    beyond = [ours["overhead"] - theirs["overhead"] for ours, theirs in zip(slurm, plain, strict=True)]
    rows.append(figure("slurm: overhead beyond plain sbatch", beyond, "s", most=MOST_SECONDS))
    ranges = {name: [each["overhead"] for each in jobs] for name, jobs in sides.items()}
    ranges["slurm beyond plain sbatch"] = beyond
    return rows, [f"{name}: overhead {min(each):.2f} to {max(each):.2f} s." for name, each in ranges.items()]


def one_job(service: str, folder: Path, cluster: SlurmCluster) -> Parts:
    """Train once, and return the seconds from the start of the job's run to the line that reports its end."""
    group = Group(folder=folder, cluster=cluster, verb="train", service=service, seconds=SECONDS)
    launcher = subprocess.Popen(
        group.command, cwd=ROOT, env=group.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert launcher.stdout
    output, recorded = "", None
    for line in launcher.stdout:
        output += line
        if recorded is None and re.search(r"s billable", line):
            recorded = time.time()
    if launcher.wait() or recorded is None:
        sys.exit(f"error: the job failed:\n{output}")
    root = group.home / "slurm" if service == "slurm" else group.home
    [path] = [each for each in (root / "jobs").iterdir() if (each / "state.json").exists()]
    state = JobFolder(path).state()
    notes = {note.kind: note for note in group.notes()}
    [run] = group.runs("job")
    opened, created, ended = run.info.start_time / 1000, state["CreationTime"], state["TrainingEndTime"]
    parts = {"overhead": recorded - opened - _script_seconds(notes), "before the submission": created - opened}
    if service == "slurm":
        submitted = (path / JOB_ID).stat().st_mtime
        parts["until sbatch has ended"] = submitted - created
        parts["from sbatch to the allocation"] = notes["allocation"].time - submitted
        parts["from the allocation to the script"] = notes["script"].time - notes["allocation"].time
    else:
        parts["from the submission to the script"] = notes["script"].time - created
    parts["from the script to the job's end"] = ended - notes["end"].time
    parts["from the job's end to its record"] = recorded - ended
    return parts


def plain_job(folder: Path, cluster: SlurmCluster) -> Parts:
    """Run the script with `sbatch` alone, and return the seconds from the command to the end of the allocation."""
    group = Group(folder=folder, cluster=cluster)
    folder.mkdir(parents=True)
    notes, ended = folder / "notes.txt", folder / "ended.txt"
    words = [sys.executable, str(SCRIPT / "beat.py"), "--notes", str(notes), "--seconds", str(SECONDS)]
    stamp = f'echo "allocation plain - $(date +%s.%N) $$" >> {shlex.quote(str(notes))}'
    script = f"{stamp}\n{shlex.join(words)}\ndate +%s.%N > {ended}.new && mv {ended}.new {ended}"
    before = time.time()
    cluster.run("sbatch", "--parsable", "--cpus-per-task=1", f"--output={folder}/output.txt", "--wrap", script)
    submitted = time.time()
    while not ended.exists():
        assert time.time() < submitted + 120, "plain sbatch did not end"
        time.sleep(0.02)
    found = {note.kind: note for note in group.notes()}
    end = float(ended.read_text())
    return {
        "overhead": end - before - _script_seconds(found),
        "until sbatch has ended": submitted - before,
        "from sbatch to the allocation": found["allocation"].time - submitted,
        "from the allocation to the script": found["script"].time - found["allocation"].time,
    }


def _script_seconds(notes: dict[str, Note]) -> float:
    return notes["end"].time - notes["script"].time
