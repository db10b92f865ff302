"""Train one setting several times, and record the jobs' cost and quality as a table for simulations.

    python -m benchmarks.recorded.record_repeats NAME --experiment demo --repeats 20 [--FIELD VALUE ...]

The jobs belong to one `compare` with a single arm. They run one after the other, each with the next seed. Running the
same command again adds the same number of jobs, or resumes an interrupted recording. Jobs and tracking database stay in
`--folder`. `record_workloads` records all tables of the benchmarks with one command.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.recorded.repeats_table import Repeat, Repeats, Setting, read, write
from benchmarks.support.command import compare
from benchmarks.support.data import DATA
from benchmarks.support.neighbour import neighbour
from experiments.planning.load import load
from tracking.recording.run_description import environment


def repeat_rows(
    jobs: Sequence[Mapping[Any, Any]], seed: int, since_ms: float | None = None, recording: int = 1
) -> list[Repeat]:
    """Return the successful jobs among the rows of `job_tables.jobs`.

    `seed` is the first job's seed. `since_ms` is the start time of the table's first job.
    """
    finished = [job for job in jobs if job["status"] == "FINISHED"]
    first = since_ms if since_ms is not None else min((job["start_time_ms"] for job in finished), default=0.0)
    return [
        Repeat(
            seed=seed + int(job["repeat"]),
            started_seconds=round((job["start_time_ms"] - first) / 1000, 1),
            cache_state=str(job["cache_state"]),
            billable_seconds=round(_number(job, "cost_billable_seconds"), 3),
            steady_samples_per_second=round(_number(job, "throughput_steady_samples_per_second"), 2),
            compile_seconds=round(_number(job, "time_compile_seconds", 0.0), 3),
            warmup_seconds=round(_number(job, "time_warmup_seconds"), 3),
            samples=_number(job, "samples"),
            eval_loss=round(_number(job, "eval_loss"), 6),
            eval_accuracy=round(_number(job, "eval_accuracy"), 6),
            disturbed=_text(job, "disturbed"),
            recording=recording,
        )
        for job in sorted(finished, key=lambda job: job["start_time_ms"])
    ]


def _number(job: Mapping[Any, Any], column: str, missing: float = math.nan) -> float:
    value = float(job.get(column, math.nan))
    return value if math.isfinite(value) else missing


def _text(job: Mapping[Any, Any], column: str) -> str:
    value = job.get(column)
    return value if isinstance(value, str) else ""


def record(
    name: str, folder: Path, fields: Mapping[str, str], repeats: int, recording: int, *, is_disturbed: bool
) -> None:
    """Train the jobs and add them to the table. With `is_disturbed`, a `neighbour` loads the machine meanwhile.

    `recording` is the number of this recording: jobs that are recorded at another time, or on another machine, may take
    a different time.
    """
    from mlflow import MlflowClient

    from tracking.queries.job_tables import jobs

    here, before = environment(), read(name)
    machine = f"{here['machine']['processor']}, {here['machine']['cores']} cores"
    commit = str(here["git"]["commit"])
    setting = Setting(fields=_without_folder(fields), machine=machine, commit=commit, is_disturbed=is_disturbed)
    if before and replace(before.setting, commit=commit) != setting:
        sys.exit(f"error: table {name} has a different setting or machine: choose a different name")
    earlier = list(before.rows) if before else []
    seed = earlier[-1].seed + 1 if earlier else load(fields["experiment"], _overrides(fields)).seed
    one_arm = {"compare.arms": "[{}]", "compare.baseline": "null", "compare.repeats": str(repeats), "seed": str(seed)}
    with neighbour(is_present=is_disturbed):
        group = compare(folder, {**fields, **one_arm})
    tracked = jobs(MlflowClient(f"sqlite:///{folder / 'mlflow.db'}"), group).to_dict("records")
    since_ms = tracked[0]["start_time_ms"] - 1000 * _recorded_seconds(earlier) if earlier else None
    added = repeat_rows(tracked, seed, since_ms, recording)
    if len(added) < repeats:
        print(f"  {repeats - len(added)} jobs failed and are left out")
    write(name, Repeats(setting=setting, rows=[*earlier, *added]))


def next_recording(names: Sequence[str]) -> int:
    """Return the number of a new recording of the named tables."""
    tables = filter(None, map(read, names))
    return max((row.recording for table in tables for row in table.rows), default=0) + 1


def _recorded_seconds(rows: Sequence[Repeat]) -> float:
    """Return the seconds from the table's first job to the end of its last. Pauses between recordings are left out."""
    return rows[-1].started_seconds + rows[-1].billable_seconds


def _without_folder(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the fields with files of the shared data named without their folder, which depends on the machine."""
    return {name: value.removeprefix(f"{DATA}/") for name, value in fields.items()}


def _overrides(fields: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if name != "experiment"}


def main(argv: Sequence[str]) -> None:
    """Train the jobs, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", help="name of the table")
    parser.add_argument("--experiment", required=True)
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--folder", type=Path, default=Path("repeats"), help="folder for jobs and tracking database")
    parser.add_argument("--disturbed", action="store_true", help="load the machine in spells at the same time")
    arguments, others = parser.parse_known_args(argv)
    overrides = {name.removeprefix("--"): value for name, value in zip(others[::2], others[1::2], strict=True)}
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    fields = {"experiment": arguments.experiment, **overrides}
    number = next_recording([arguments.name])
    record(arguments.name, folder, fields, arguments.repeats, number, is_disturbed=arguments.disturbed)


if __name__ == "__main__":
    main(sys.argv[1:])
