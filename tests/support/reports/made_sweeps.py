"""Hand-made sweeps on a tracking store, from a simple model of training.

A step takes a fixed time plus a time per sample. Losses fall with the samples; the best learning rate depends on the
batch size.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

STARTED_SECONDS = 1_700_000_000.0
SECONDS_PER_STEP = {"none": (0.060, 0.0072), "inductor": (0.055, 0.0040)}
"""Fixed seconds and seconds per sample, by compiler."""
SET_UP_SECONDS = {"none": 12.0, "inductor": 24.0}
WHOLE_SAMPLES = 16_000
TARGET = 0.45


class MadeSweep:
    """Writer of a sweep's runs, one after the other in time."""

    def __init__(self, client: MlflowClient, experiment_id: str, group: str = "emotion-sweep-1") -> None:
        self.client, self.experiment_id, self.group = client, experiment_id, group
        self.now = STARTED_SECONDS
        tags = {"platform.kind": "group", "platform.group": group, "platform.verb": "sweep"}
        tags |= {"platform.group_state": "open", "mlflow.runName": "sweep emotion"}
        self.parent = str(client.create_run(experiment_id, tags=tags).info.run_id)

    def write_spec(self, document: Mapping[str, Any]) -> None:
        """Write the parent's `sweep.json`."""
        self.client.log_text(self.parent, json.dumps(document), "sweep.json")

    def run(
        self,
        role: str,
        compiler: str,
        *,
        seconds: float,
        status: str = "FINISHED",
        tags: Mapping[str, str] = {},
        params: Mapping[str, Any] = {},
        metrics: Mapping[str, float] = {},
        points: list[Metric] | None = None,
    ) -> str:
        """Write a job with this role and return its run id."""
        common = {
            "platform.kind": "job",
            "platform.group": self.group,
            "platform.role": role,
            "platform.compiler": compiler,
            "platform.device": "1 x test processor",
            "platform.instance_type": "local",
            "platform.data_key": "abc123",
            "platform.cache_state": "off" if compiler == "none" else "warm",
            "platform.training_start_time": repr(self.now),
            "platform.job_name": f"{self.group}-{role}-{int(self.now - STARTED_SECONDS)}",
        }
        run = self.client.create_run(self.experiment_id, tags={**common, **tags}, start_time=int(1000 * self.now))
        at_ms = int(1000 * (self.now + seconds))
        costs = {"cost/billable_seconds": seconds, "cost/billable_instance_seconds": seconds}
        finals = [Metric(key, value, at_ms, 0) for key, value in {**costs, **metrics}.items()]
        self.client.log_batch(
            run.info.run_id,
            [*(points or []), *finals],
            [Param(key, str(value)) for key, value in params.items()],
        )
        self.client.set_terminated(run.info.run_id, status)
        self.now += seconds + 5
        return str(run.info.run_id)

    def calibration(self, compiler: str, sizes: list[int], largest: int) -> None:
        """Write a calibration of these batch sizes; sizes above `largest` do not fit."""
        at_ms, points = int(1000 * self.now), []
        for size in sizes:
            metrics = {"fits": float(size <= largest)}
            if size <= largest:
                step = step_seconds(compiler, size) * (1 + 0.03 * math.sin(size))
                metrics |= {"step_seconds": step, "step_seconds_low": 0.96 * step, "step_seconds_high": 1.05 * step}
                metrics |= {"samples_per_second": size / step, "peak_memory_gib": 1.2 + 0.021 * size}
            points += [Metric(f"calibration/{key}", value, at_ms, size) for key, value in metrics.items()]
        finals = {"calibration/eval_seconds": 2.0, "calibration/largest_batch_size": float(min(largest, max(sizes)))}
        tags = {"arm": f"{compiler}, calibration", "platform.repeat": "0"}
        self.run("calibration", compiler, seconds=40.0, tags=tags, points=points, metrics=finals)

    def training(
        self,
        role: str,
        compiler: str,
        size: int,
        multiplier: float = 1.0,
        *,
        repeat: int = 0,
        until: float | None = None,
        target: float | None = TARGET,
        tags: Mapping[str, str] = {},
        status: str = "FINISHED",
        params: Mapping[str, Any] = {},
    ) -> str:
        """Write a training that ends at the target, if there is one, or after the share `until` of all samples."""
        losses = [(samples, loss(samples, size, multiplier, repeat)) for samples in range(800, WHOLE_SAMPLES + 1, 800)]
        whole = [(n, value) for n, value in losses if until is None or n <= until * WHOLE_SAMPLES]
        reached = next((i for i, (_, value) in enumerate(whole) if target is not None and value <= target), None)
        logged = whole if reached is None else whole[: reached + 1]
        per_sample = step_seconds(compiler, size) / size
        start = self.now + SET_UP_SECONDS[compiler]
        points = []
        for samples, value in logged:
            at_ms, step = int(1000 * (start + samples * per_sample)), samples // size
            points += [Metric("eval_loss", value, at_ms, step), Metric("samples", float(samples), at_ms, step)]
        seconds = (SET_UP_SECONDS[compiler] + logged[-1][0] * per_sample) * (1 + 0.03 * math.sin(37 * repeat + size))
        metrics = _finals(compiler, size, logged[-1][0])
        if target is not None:
            ends = {"hp.target_stop": True, "hp.target_metric": "eval_loss", "hp.target_value": target}
            params = {**ends, **params}
            metrics |= {"target/reached": float(reached is not None)}
            metrics |= {"target/samples": float(logged[-1][0])} if reached is not None else {}
        end = "completed" if target is None or reached is not None else "not reached"
        arm = f"{compiler}, batch {size}" + (f", rate × {multiplier:g}" if multiplier != 1 else "")
        run_tags = {"platform.multiplier": f"{multiplier:g}", "arm": arm, "platform.repeat": str(repeat)}
        hyperparameters = {"hp.batch_size": size, "hp.learning_rate": 5e-5 * size / 8 * multiplier}
        end_tags = {"platform.end": end} if role == "trial" else {}
        return self.run(
            role,
            compiler,
            seconds=seconds,
            status=status,
            tags={**run_tags, **end_tags, **tags},
            params={**hyperparameters, **params},
            metrics=metrics,
            points=points,
        )


def _finals(compiler: str, size: int, samples: float) -> dict[str, float]:
    per_sample = step_seconds(compiler, size) / size
    return {
        "throughput/steady_samples_per_second": 1 / per_sample,
        "memory/peak_resident_gib": 1.2 + 0.021 * size,
        "time/load_seconds": 6.0,
        "time/compile_seconds": SET_UP_SECONDS[compiler] - 12.0,
        "time/warmup_seconds": 2.0,
        "time/train_steady_seconds": samples * per_sample,
    }


def step_seconds(compiler: str, size: int) -> float:
    """Return the seconds of a step."""
    fixed, per_sample = SECONDS_PER_STEP[compiler]
    return fixed + per_sample * size


def loss(samples: float, size: int, multiplier: float, seed: int = 0) -> float:
    """Return a loss that falls with the samples, more slowly for large batches and for a rate far from the best."""
    best = 2.0 - 0.34 * math.log2(size / 8)
    off = 0.16 * (math.log2(multiplier) - best) ** 2
    needed = 1500 * (1 + size / 400) * (1 + off)
    return 0.33 + 0.9 * (1 + samples / needed) ** -1.15 + 0.004 * math.sin(samples / 700 + 11 * seed + size)


def sweep_json(**fields: Any) -> dict[str, Any]:
    """Return a `sweep.json` with batch sizes 8..256, factors 0.25..4, two compilers and the target eval_loss 0.45."""
    document = {
        "objective": {
            "cost": "billable_seconds",
            "metric": "eval_loss",
            "higher_is_better": False,
            "target": TARGET,
            "bound": None,
            "is_front": False,
        },
        "batch_sizes": [8, 16, 32, 64, 128, 256],
        "multipliers": [0.25, 0.5, 1, 2, 4],
        "compilers": ["none", "inductor"],
        "base": {"compiler": "none", "batch_size": 8, "multiplier": 1},
        "samples": WHOLE_SAMPLES,
        "stopped_because": {
            "none": "no setting that is left promises to save 1 %",
            "inductor": "no setting that is left promises to save 1 %",
        },
        "train_command": "trainfare train --experiment emotion --compiler inductor --batch_size 64 "
        "--learning_rate_multiplier 2",
    }
    return {**document, **fields}


TRIAL_SETTINGS = ((8, 1.0), (32, 1.0), (64, 1.0), (64, 2.0), (32, 2.0), (128, 1.0), (64, 0.5), (16, 2.0))


def whole_sweep(client: MlflowClient, experiment_id: str, *, target: float | None = TARGET, **fields: Any) -> MadeSweep:
    """Write a complete sweep: calibrations, trials with every outcome, and repeats."""
    sweep = MadeSweep(client, experiment_id)
    sweep.write_spec(sweep_json(**fields))
    for compiler in ("none", "inductor"):
        sweep.calibration(compiler, [8, 16, 32, 64, 128, 256], 256 if compiler == "inductor" else 128)
    number = 0
    for size, multiplier in TRIAL_SETTINGS:
        for compiler in ("none", "inductor"):
            sweep.training("trial", compiler, size, multiplier, target=target, tags={"platform.trial": str(number)})
            number += 1
    pruned = {"platform.end": "pruned: its bill would be above the cheapest", "platform.trial": str(number)}
    sweep.training("trial", "inductor", 8, 0.5, until=0.25, target=target, status="KILLED", tags=pruned)
    failed = {"platform.end": "failed: OutOfMemory", "platform.trial": str(number + 1)}
    failed |= {"platform.failure_class": "OutOfMemory", "platform.failure_message": "asked for 2 GiB"}
    sweep.training("trial", "none", 256, 1.0, until=0.05, target=target, status="FAILED", tags=failed)
    for repeat in range(3):
        for compiler, size, multiplier in (
            ("none", 8, 1.0),
            ("inductor", 8, 1.0),
            ("none", 64, 2.0),
            ("inductor", 64, 2.0),
        ):
            base = {"platform.baseline": "true" if (compiler, size) == ("none", 8) else "false"}
            sweep.training("confirmation", compiler, size, multiplier, repeat=repeat, target=target, tags=base)
    return sweep
