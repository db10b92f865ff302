"""Hand-made tables of a sweep's jobs."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reports.sweep.sweep import Sweep, sweep_of
from tracking.recorded.recorded_job import STEADY

TO_045 = {"cost": "billable_seconds", "metric": "eval_loss", "higher_is_better": False, "target": 0.45}
BASE = {"compiler": "none", "batch_size": 8, "multiplier": 1}
DOCUMENT: dict[str, Any] = {"objective": TO_045, "base": BASE, "compilers": ["none", "inductor"]}
WITHIN_045 = {**DOCUMENT, "objective": {**TO_045, "target": None, "bound": 0.45}}
FRONT = {**DOCUMENT, "objective": {**TO_045, "target": None, "is_front": True}}
RATE = {**DOCUMENT, "objective": {"cost": "steady_samples_per_second"}}


def row(role: str, compiler: str, size: float, billed: float, multiplier: float = 1.0, **more: Any) -> dict[str, Any]:
    """Return the row of a job that trained 1,000 samples and reached its target."""
    values = {
        "status": "FINISHED",
        "role": role,
        "compiler": compiler,
        "hp_batch_size": size,
        "multiplier": f"{multiplier:g}",
        "cost_billable_seconds": billed,
        "cost_billable_instance_seconds": billed,
        "target_reached": 1.0,
        "samples": 1000.0,
        "eval_loss": 0.44,
        "arm": f"{compiler} {size} {multiplier}",
        "instance_type": "local",
        "device": "cpu",
        "data_key": "k",
        "end": "completed" if role == "trial" else None,
        "hp_target_stop": "True",
        "hp_target_metric": "eval_loss",
        "hp_target_value": "0.45",
    }
    return {**values, **more}


def trial(compiler: str, size: float, billed: float, multiplier: float = 1.0, **more: Any) -> dict[str, Any]:
    return row("trial", compiler, size, billed, multiplier, **more)


def repeats(compiler: str, size: float, *billed: float, multiplier: float = 1.0, **more: Any) -> list[dict[str, Any]]:
    """Return repeats numbered as a sweep numbers them: 0 is the trial."""
    baseline = "true" if (compiler, size, multiplier) == ("none", 8, 1.0) else "false"
    return [
        row("confirmation", compiler, size, each, multiplier, baseline=baseline, repeat=str(number), **more)
        for number, each in enumerate(billed, start=1)
    ]


def rate_trial(compiler: str, size: float, rate: float, **more: Any) -> dict[str, Any]:
    """Return a trial of a sweep for throughput, which bills 100 s whatever its samples per second."""
    return trial(compiler, size, 100.0, throughput_steady_samples_per_second=rate, **more)


def rate_repeats(compiler: str, size: float, *rates: float) -> list[dict[str, Any]]:
    """Return repeats of a sweep for throughput, one for each rate."""
    rows = repeats(compiler, size, *[100.0] * len(rates), hp_target_stop=None)
    return [{**each, STEADY: rate} for each, rate in zip(rows, rates, strict=True)]


def make_sweep(*rows: dict[str, Any], document: dict[str, Any] = DOCUMENT, **read: Any) -> Sweep:
    table = pd.DataFrame([{**each, "run_id": f"r{i}"} for i, each in enumerate(rows)])
    return sweep_of(table, "g", document, read.get("calibrations", {}), read.get("design"))
