"""Description of a run in MLflow, and the environment of its launcher."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from tracking.groups.planned_job import TRAINING, PlannedJob
from training.contract.plain_text import without_markup

ROOT = Path(__file__).resolve().parents[2]

_PACKAGES = ("torch", "transformers", "accelerate", "datasets", "tokenizers", "mlflow", "optuna", "numpy", "pandas")

_FIGURES = (
    ("throughput/steady_samples_per_second", "steady throughput", "{:.1f} samples/s"),
    ("throughput/end_to_end_samples_per_second", "end-to-end throughput", "{:.1f} samples/s"),
    ("time/compile_seconds", "compile", "{:.1f} s"),
    ("time/warmup_seconds", "warm-up", "{:.1f} s"),
    ("time/train_steady_seconds", "steady training", "{:.1f} s"),
    ("cost/billable_seconds", "billable", "{:.1f} s"),
    ("train_loss", "training loss", "{:.4f}"),
    ("eval_loss", "evaluation loss", "{:.4f}"),
    ("eval_perplexity", "perplexity", "{:.2f}"),
    ("eval_accuracy", "accuracy", "{:.4f}"),
    ("eval_f1_macro", "macro F1", "{:.4f}"),
    ("eval_f1", "F1", "{:.2f} %"),
    ("eval_exact_match", "exact match", "{:.2f} %"),
)


@functools.cache
def environment() -> dict[str, Any]:
    """Return the launcher's hardware, package versions and source commit, which help to reproduce a result."""
    return {
        "machine": {
            "platform": platform.platform(),
            "processor": cpu_name(),
            "cores": os.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        },
        "python": sys.version.split()[0],
        "packages": {name: number for name in _PACKAGES if (number := _version(name))},
        "git": git_state(ROOT),
    }


def git_state(folder: Path) -> dict[str, Any]:
    """Return the commit of a checkout, and whether its tracked files differ from it.

    Untracked files do not count. They are those that commands write: databases, their locks, state and reports.
    """
    status = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": _git(folder, "rev-parse", "HEAD"), "dirty": bool(status)}


def job_note(
    planned: PlannedJob,
    metrics: Mapping[str, float],
    failure: tuple[str, str] | None,
    log_tail: list[str],
    log_location: str,
) -> str:
    """Return the Markdown description of a job's run."""
    spec = planned.spec
    lines = [
        f"**{without_markup(planned.run_name)}**, on {spec.instance_count} x {without_markup(spec.instance_type)}"
        + (" (the baseline)" if planned.is_baseline and planned.tags.get("platform.role") != TRAINING else ""),
        "",
        f"Job `{spec.name}`; data {without_markup(planned.data.name)}{_rows(planned.data.rows)}.",
        "",
    ]
    is_stopped = failure is not None and failure[0] == "Stopped"
    if is_stopped:
        lines += [f"**Stopped** after {metrics.get('cost/billable_seconds', 0):.1f} billable seconds.", ""]
    elif failure:
        lines += [f"**{failure[0]}**: {without_markup(failure[1])}", ""]
    if failure and log_tail and not is_stopped:
        tail = "\n".join(log_tail).replace("```", "'''")
        lines += [f"Last lines of the log ({without_markup(log_location)}):", "```", tail[-4000:], "```"]
    if not failure:
        lines += ["| figure | value |", "| --- | --- |"]
        figures = [(label, form.format(metrics[name])) for name, label, form in _FIGURES if name in metrics]
        # A script may log the scores as fractions.
        lines += [f"| {label} | {text.removesuffix(' %') if planned.script else text} |" for label, text in figures]
    return "\n".join(lines)


def _rows(rows: Mapping[str, int]) -> str:
    return f" ({', '.join(f'{count} {split}' for split, count in rows.items())})" if rows else ""


def cpu_name() -> str:
    """Return the name of this machine's CPU."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
