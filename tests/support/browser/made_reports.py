"""Report pages of hand-made runs, with every kind of content that a page can have."""

from __future__ import annotations

import json
import math

from mlflow import MlflowClient

from reports.formats.html import html_page
from reports.render import render, render_overview
from tests.support.reports.made_experiments import Experiment, made_experiment
from tests.support.reports.made_sweeps import whole_sweep
from tests.support.tracking.tracked import Tracked

LONG = "inductor, batch 64, precision bf16, attention sdpa"
BILLED = {"none": (1204.0, 1198.0, 1187.0), "inductor": (843.0, 861.0, 998.0), LONG: (99.5, 101.2, 97.4)}
"""Billable seconds by arm. Sorted as text, their order would differ from that of the numbers."""
RATES = {"none": 21.4, "inductor": 33.8, LONG: 260.0}
"""Steady samples per second by arm."""
LOSS_DECAY_STEPS = {"none": 8.0, "inductor": 7.5, LONG: 5.0}
"""Number of steps in which the loss falls by the factor e, by arm."""
PUBLISHED = json.dumps(
    {
        "source": "an article of 2022",
        "machine": "ml.p3.2xlarge",
        "figures": {"throughput_ratio": 1.6, "batch_size_ratio": 4.0, "loss_ratio": 1.0, "break_even_minutes": 12.0},
    }
)


def made_comparison(client: MlflowClient, artifacts: str) -> str:
    """Return the page of a comparison of three arms: one job has a cold cache, one failed, one is running."""
    tracked = Tracked(client, str(client.create_experiment("comparison", artifact_location=artifacts)))
    for repeat in range(3):
        for arm, billed in BILLED.items():
            is_cold = arm == "inductor" and repeat == 2
            times = {"time/compile_seconds": 140.0 if is_cold else 0.0 if arm == "none" else 12.0}
            state = "cold" if is_cold else "off" if arm == "none" else "warm"
            tracked.trained(
                arm,
                repeat,
                billed[repeat],
                RATES[arm] + repeat / 2,
                baseline=arm == "none",
                metrics={**times, "time/train_steady_seconds": 0.75 * billed[repeat]},
                params={"hp.batch_size": 64 if arm == LONG else 16},
                tags={"platform.cache_state": state, "platform.compiler": arm[:8], "platform.published": PUBLISHED},
                losses=[0.3 + math.exp(-step / LOSS_DECAY_STEPS[arm]) + 0.01 * repeat for step in range(20)],
            )
    failure = {"platform.failure_class": "OutOfMemory", "platform.failure_message": "asked for 2.00 GiB\nof 1.43 GiB"}
    failure |= {"platform.compiler": "inductor"}
    tracked.job(LONG, 3, status="FAILED", tags=failure, metrics={"cost/billable_instance_seconds": 1000.0})
    tracked.job("none", 3, status=None, baseline=True, tags={"platform.compiler": "none"})
    return html_page(render(client, tracked.group, "squad-minilm"))


def made_sweep(client: MlflowClient, artifacts: str) -> str:
    """Return the page of a sweep with trials of every outcome."""
    sweep = whole_sweep(client, str(client.create_experiment("sweep", artifact_location=artifacts)))
    return html_page(render(client, sweep.group, "emotion"))


def made_probes(client: MlflowClient, artifacts: str) -> str:
    """Return the page of probes on three machines."""
    tracked = Tracked(client, str(client.create_experiment("probes", artifact_location=artifacts)))
    tracked.group = "machines-1"
    ends = {"": 1.0, "_low": 0.97, "_high": 1.03}
    for machine, seconds, usd in (
        ("ml.g5.xlarge", 840.0, 0.33),
        ("ml.g4dn.xlarge", 2100.0, 0.43),
        ("ml.p3", 610.0, 0.65),
    ):
        metrics = {f"projected/billable_seconds{end}": seconds * share for end, share in ends.items()}
        metrics |= {f"projected/usd{end}": usd * share for end, share in ends.items()}
        tracked.trained(machine, 0, 60.0, 20_000 / seconds, params={"hp.probe_precision": "0.05"}, metrics=metrics)
    return html_page(render(client, tracked.group, "machines"))


def made_overview(client: MlflowClient, _: str) -> str:
    """Return the page of an experiment with groups of every kind."""
    return html_page(render_overview(client, made_experiment(Experiment(client, "overview")).name)[1])
