"""Artifacts and note of a job's run in MLflow: environment, data page and tables.

A user's script reports no metadata, so what our own job emits at its start is made here for it.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from mlflow.entities import Dataset, DatasetInput, InputTag
from mlflow.utils.mlflow_tags import MLFLOW_LOGGED_ARTIFACTS

from tracking.groups.planned_job import TRAINING, DataSource, PlannedJob
from tracking.server.store import Store
from training.contract.events import Event
from training.contract.failures import Failure
from training.contract.plain_text import without_markup
from training.job.tasks import METRICS
from training.services.registry import service_name, traits_of
from training.staging.tokens.staged import phrases

DATA_FILE = "data.md"
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
    *((metric.name, metric.label, metric.text_format) for metric in METRICS),
)
Rows = Sequence[Mapping[str, Any]]


def job_note(planned: PlannedJob, metrics: Mapping[str, float], failure: Failure | None, log_tail: list[str]) -> str:
    spec = planned.spec
    rows = ", ".join(f"{count} {split}" for split, count in planned.data.rows.items())
    lines = [
        f"**{without_markup(planned.run_name)}**, on {spec.instance_count} x {without_markup(spec.instance_type)}"
        + (" (the baseline)" if planned.is_baseline and planned.tags.get("platform.role") != TRAINING else ""),
        "",
        f"Job `{spec.name}`; data {without_markup(planned.data.name)}{f' ({rows})' if rows else ''}.",
        "",
    ]
    if failure and failure.is_stop:
        lines += [f"**Stopped** after {metrics.get('cost/billable_seconds', 0):.1f} billable seconds.", ""]
    elif failure:
        lines += [f"**{failure.failure_class}**: {without_markup(failure.message)}", ""]
        if log_tail:
            tail = "\n".join(log_tail).replace("```", "'''")
            lines += [f"Last lines of the log ({without_markup(failure.log_location)}):", "```", tail[-4000:], "```"]
    else:
        lines += ["| figure | value |", "| --- | --- |"]
        figures = [(label, form.format(metrics[name])) for name, label, form in _FIGURES if name in metrics]
        # A script may log the scores as fractions.
        lines += [f"| {label} | {text.removesuffix(' %') if planned.script else text} |" for label, text in figures]
    return "\n".join(lines)


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
        "packages": {name: version(name) for name in _PACKAGES},
        "git": git_state(ROOT),
    }


def git_state(folder: Path) -> dict[str, Any]:
    """Return the commit of a checkout, and whether its tracked files differ from it.

    Untracked files do not count: commands write databases, their locks, state and reports.
    """

    def git(*arguments: str) -> str | None:
        command = ["git", *arguments]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=10, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    status = git("status", "--porcelain", "--untracked-files=no")
    return {"commit": git("rev-parse", "HEAD"), "dirty": bool(status)}


def cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def dataset_input(data: DataSource, key: str) -> DatasetInput:
    """Return the data as MLflow's data set, with its rows as the profile. The digest is the key of the staged data,
    because MLflow stores a profile once per name and digest."""
    columns = [{"name": name, "type": kind, "required": True} for name, kind in data.columns.items()]
    dataset = Dataset(
        name=data.name[:500],
        digest=key[:36],
        source_type="trainfare",
        source=json.dumps({"uri": data.source, "sha256": data.digest}, ensure_ascii=False),
        schema=json.dumps({"mlflow_colspec": columns}) if columns else None,
        profile=json.dumps(dict(data.rows)),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])


def data_markdown(data: DataSource) -> str | None:
    """Return a page with everything that is known about the data; None for data that was not described."""
    if data.description is None:
        return None
    text = [f"# {without_markup(data.name)}", "", without_markup(data.source), ""]
    text += [f"- **{name}**: {without_markup(phrase)}" for name, phrase in phrases(data.description).items()]
    samples = data.description.samples
    if samples:
        has_labels = any(sample.label is not None for sample in samples)
        text += ["", "Some training rows, drawn at random and cut at 200 characters:", ""]
        text += ["| row | label | text |" if has_labels else "| row | text |", "| --: | --- |" + " --- |" * has_labels]
        for sample in samples:
            label = f" {without_markup(sample.label or '')} |" if has_labels else ""
            text.append(f"| {sample.number} |{label} {without_markup(sample.text)} |")
    return "\n".join(text) + "\n"


def log_tables(store: Store, run_id: str, tables: Mapping[str, Rows]) -> None:
    """Write each table as `tables/NAME` in the format of `mlflow.log_table`, and add it to the run's list of tables."""
    if not tables:
        return
    for name, rows in tables.items():
        store.call(store.client.log_text, run_id, table_text(rows), f"tables/{name}")
    listed = json.loads(store.call(store.client.get_run, run_id).data.tags.get(MLFLOW_LOGGED_ARTIFACTS, "[]"))
    listed += [entry for name in tables if (entry := {"path": f"tables/{name}", "type": "table"}) not in listed]
    store.tag(run_id, {MLFLOW_LOGGED_ARTIFACTS: json.dumps(listed)})


def table_text(rows: Rows) -> str:
    """Return `{"columns": [...], "data": [[...], ...]}`; missing values are null."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    data = [[row.get(name) for name in columns] for row in rows]
    return json.dumps({"columns": columns, "data": data}, ensure_ascii=False, default=str)


def class_rows(data: DataSource) -> list[dict[str, Any]]:
    """Return one row per class with its count and its share in each split."""
    return [
        {"label": name}
        | {
            f"{split}_{what}": value
            for split, counts in data.class_counts.items()
            for what, value in (("rows", counts[at]), ("share", round(counts[at] / max(sum(counts), 1), 6)))
        }
        for at, name in enumerate(data.label_names)
    ]


def start_event(planned: PlannedJob) -> Event:
    """Return the `start` event for a script: its hyperparameters and its device.

    The device is the instance type. The log does not show which of the instance's devices a script uses.
    """
    assert planned.script is not None
    spec = planned.spec
    traits = traits_of(service_name(spec.instance_type))
    name = f"{traits.label} ({cpu_name()})" if traits.runs_here else spec.instance_type
    device = {"kind": "unknown", "name": name, "count": spec.instance_count}
    fields = {"hyperparameters": dict(planned.script.hyperparameters), "device": device}
    return Event(kind="start", seq=0, time=0.0, fields=fields)


def cache_state(planned: PlannedJob) -> str:
    """Return the state of the compiler's cache before the job: off, cold or warm.

    Each compiler setting has its own cache folder (see `experiments.planning.plan`), so a folder with files is warm.
    Call this before the job is submitted, and store the result in its run.
    """
    spec = planned.spec
    if spec.compiler in ("none", "trcomp-off"):
        return "off"
    keeps_cache = traits_of(service_name(spec.instance_type)).keeps_state_in_home
    if not keeps_cache or "TORCHINDUCTOR_FORCE_DISABLE_CACHES" in spec.environment:
        return "cold"
    folder = Path(spec.environment["TORCHINDUCTOR_CACHE_DIR"])
    return "warm" if folder.is_dir() and any(folder.iterdir()) else "cold"
