r"""Train a full grid of batch sizes and learning rates, and record it as a table for `bench_sweep`.

    python -m benchmarks.recorded.record_grid NAME --experiment emotion --batch_sizes 8..256 --multipliers 0.25..4 \
        --seeds 3 --precision bf16 --target '{metric: eval_loss, value: 0.45}' --eval_samples 512 [--FIELD VALUE ...]

The grid is one `compare` whose arms are the grid's points, with a repeat for each seed. Each job ends at the target.
The precision is fixed, so that a later change of `auto` does not change what was recorded. If the recording is
interrupted, the same command resumes it. Jobs and tracking database stay in `--folder`. Record on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.recorded.grid_table import GridRow, GridSpec, write
from benchmarks.support.command import compare, train
from experiments.planning.hyperparameters import staging_request
from experiments.planning.load import Experiment, load
from sweeps.cost_model.costs import Measurement
from sweeps.space.grid import Point, Space, space
from tracking.recording.run_description import environment
from training.staging.stage import stage


def arms(grid: Space, compiler: str) -> list[dict[str, Any]]:
    """Return the fields of each point, as arms."""
    return [
        {"compiler": compiler, "batch_size": point.batch_size, "learning_rate_multiplier": point.multiplier}
        for point in grid.points
    ]


def common_fields(arguments: argparse.Namespace, others: Sequence[str]) -> dict[str, str]:
    """Return the fields that all jobs share. `others` are the fields given as `--FIELD VALUE`."""
    target = {**yaml.safe_load(arguments.target), "stop": True}
    overrides = {name.removeprefix("--"): value for name, value in zip(others[::2], others[1::2], strict=True)}
    return {
        **overrides,
        "experiment": arguments.experiment,
        "target": json.dumps(target),
        "eval_strategy": "samples",
        "eval_samples": str(arguments.eval_samples),
        "precision": arguments.precision,
        "save_model": "false",
    }


def train_grid(folder: Path, fields: Mapping[str, str], grid: Space, compiler: str, seeds: int) -> str:
    """Train all points with every seed, and return the id of their group. A complete group is not trained again."""
    complete = folder / f"{compiler}.group"
    if complete.exists():
        return complete.read_text()
    repeats = {"compare.repeats": str(seeds), "compare.stop": "never"}
    return compare(folder, {**fields, **repeats, "compare.arms": json.dumps(arms(grid, compiler))})


def grid_rows(folder: Path, group: str, grid: Space, compiler: str, metric: str, seeds: int) -> list[GridRow]:
    """Return the rows of a group whose arms are the points, in the points' order. Exits if a job is missing."""
    from mlflow import MlflowClient

    from tracking.queries.job_tables import history, jobs

    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    by_name = {str(row["job_name"]): row for row in jobs(client, group).to_dict("records")}
    rows: list[GridRow] = []
    for at, point, seed in ((at, point, seed) for at, point in enumerate(grid.points) for seed in range(seeds)):
        job = by_name.get(f"{group}-{compiler}-a{at}r{seed}")
        if job is None or not _is_usable(job):
            reason = "has no job" if job is None else f"ended as {job['status']} ({job['failure_class']})"
            sys.exit(
                f"error: the grid is not complete: batch size {point.batch_size}, "
                f"learning rate x {point.multiplier:g}, seed {seed} {reason}"
            )
        curve = history(client, str(job["run_id"]), [metric]).sort_values("samples").to_dict("records")
        rows += job_rows(compiler, point, seed, job, curve)
    return rows


def _is_usable(job: Mapping[Any, Any]) -> bool:
    return bool(job["status"] == "FINISHED" or job["failure_class"] == "OutOfMemory")


def job_rows(
    compiler: str, point: Point, seed: int, job: Mapping[Any, Any], curve: Sequence[Mapping[Any, Any]]
) -> list[GridRow]:
    """Return one row for each evaluation and a last row for the job's end.

    A job that ran out of memory has only the last row, at 0 samples.
    """
    reached = job["target_reached"] == 1
    fits = job["status"] == "FINISHED"
    evaluations = [(int(each["samples"]), float(each["value"]), float(each["billable_seconds"])) for each in curve]
    cost = _billable_seconds(job)
    points = [*evaluations, (int(job["samples"]), evaluations[-1][1], cost)] if fits else [(0, math.nan, cost)]
    return [
        GridRow(
            compiler=compiler,
            batch_size=point.batch_size,
            multiplier=point.multiplier,
            seed=seed,
            samples=samples,
            value=round(value, 6),
            billable_seconds=round(seconds, 3),
            ended=number == len(points),
            reached=reached and number >= len(points) - 1,
        )
        for number, (samples, value, seconds) in enumerate(points, start=1)
    ]


def _billable_seconds(job: Mapping[Any, Any]) -> float:
    seconds = float(job["cost_billable_seconds"])
    return seconds if math.isfinite(seconds) else 0.0


def calibrate(
    folder: Path, fields: Mapping[str, str], grid: Space, compiler: str
) -> tuple[list[Measurement], dict[str, float]]:
    """Run the calibration.

    Return its measurements, and by name its billable seconds, the seconds of its steps and those of one evaluation.
    """
    spec = {name: value for name, value in fields.items() if name not in {"target", "eval_strategy", "eval_samples"}}
    timing = json.dumps({"batch_sizes": list(grid.batch_sizes)})
    done = train(folder, {**spec, "compiler": compiler, "target": "null", "calibration": timing})
    measured: dict[int, dict[str, float]] = {}
    for event in done.events:
        values = event.fields.get("values", {}) if event.kind == "metric" else {}
        if any(name.startswith("calibration/") for name in values):
            measured[int(event.fields["step"])] = {name.removeprefix("calibration/"): v for name, v in values.items()}
    result = done.result()
    figures = {name: float(result.get(f"calibration/{name}", 0.0)) for name in ("seconds", "eval_seconds")}
    return [_measured(size, values) for size, values in sorted(measured.items())], {
        **figures,
        "billable_seconds": done.billable_seconds,
    }


def _measured(size: int, values: Mapping[str, float]) -> Measurement:
    return Measurement(
        batch_size=size,
        fits=bool(values.get("fits")),
        step_seconds=values.get("step_seconds", math.nan),
        low=values.get("step_seconds_low", math.nan),
        high=values.get("step_seconds_high", math.nan),
        samples_per_second=values.get("samples_per_second", math.nan),
        peak_memory_gib=values.get("peak_memory_gib", math.nan),
    )


def full_training_samples(experiment: Experiment, folder: Path) -> int:
    """Return the samples of a training that does not stop at its target."""
    if experiment.epochs is None:
        sys.exit("error: max_steps is set, but all points of a grid must train the same samples: set epochs instead")
    return round(experiment.epochs * stage(staging_request(experiment), folder / "home").train_rows)


def main(argv: Sequence[str]) -> None:
    """Train the grid, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", help="name of the table")
    parser.add_argument("--experiment", required=True)
    parser.add_argument("--compilers", default="none", help="compilers, separated by commas")
    parser.add_argument("--batch_sizes", default="8..256")
    parser.add_argument("--multipliers", default="0.25..4")
    parser.add_argument("--target", required=True, help="{metric: ..., value: ...}")
    parser.add_argument("--eval_samples", type=int, required=True)
    parser.add_argument("--seeds", type=int, default=3, help="jobs of each point")
    parser.add_argument("--precision", choices=("bf16", "fp16", "fp32"), required=True)
    parser.add_argument("--folder", type=Path, default=Path("grid"), help="folder for jobs and tracking database")
    parser.add_argument("--no-calibration", action="store_true")
    arguments, others = parser.parse_known_args(argv)
    grid = space(arguments.batch_sizes, arguments.multipliers, "powers_of_two", 1)
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    record(arguments.name, folder, common_fields(arguments, others), grid, arguments)


def record(name: str, folder: Path, fields: dict[str, str], grid: Space, arguments: argparse.Namespace) -> None:
    """Calibrate and train each compiler's grid, and write the three files."""
    experiment = load(fields["experiment"], {key: value for key, value in fields.items() if key != "experiment"})
    metric = str(yaml.safe_load(fields["target"])["metric"])
    rows: list[GridRow] = []
    calibration: dict[str, list[Measurement]] = {}
    figures: dict[str, dict[str, float]] = {}
    for compiler in arguments.compilers.split(","):
        if not arguments.no_calibration:
            calibration[compiler], figures[compiler] = calibrate(folder, fields, grid, compiler)
        group = train_grid(folder, fields, grid, compiler, arguments.seeds)
        rows += grid_rows(folder, group, grid, compiler, metric, arguments.seeds)
        (folder / f"{compiler}.group").write_text(group)
    here = environment()
    spec = GridSpec(
        metric=metric,
        higher_is_better=not metric.endswith(("loss", "perplexity")),
        target=float(yaml.safe_load(fields["target"])["value"]),
        samples=full_training_samples(experiment, folder),
        base_batch_size=experiment.batch_size,
        fixed_seconds=min((each["billable_seconds"] - each["seconds"] for each in figures.values()), default=0.0),
        evaluation_seconds=min((each["eval_seconds"] for each in figures.values()), default=0.0),
        eval_samples=arguments.eval_samples,
        calibration_seconds={compiler: each["billable_seconds"] for compiler, each in figures.items()},
        parallel=int(fields.get("compare.parallel", "1")),
        machine=f"{here['machine']['processor']}, {here['machine']['cores']} cores",
        commit=str(here["git"]["commit"]),
    )
    write(name, spec, rows, calibration)


if __name__ == "__main__":
    main(sys.argv[1:])
