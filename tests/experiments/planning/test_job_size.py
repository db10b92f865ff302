"""Steps, samples and tokens of a job, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.planning.arms import Arm, probes
from experiments.planning.expected_cost import JobSize, size_of
from experiments.planning.load import load
from tests.support.requests.building import staged


@pytest.mark.parametrize(
    ("fields", "steps", "samples"),
    [
        # 1,000 rows make 31 batches of 32 and one of 8.
        ({"epochs": "1"}, 32, 1000),
        ({"epochs": "2.5"}, 80, 2512),  # two epochs, and 16 full batches of the third
        ({"epochs": "1", "drop_last": "true"}, 31, 992),
        ({"max_steps": "10"}, 10, 320),
        ({"max_steps": "40"}, 40, 1256),
        # Four batches make a step: 8 steps, of which the last has 104 rows.
        ({"epochs": "1", "gradient_accumulation_steps": "4"}, 8, 1000),
        # 64 rows on two devices: 15 steps of 64 and one of 40.
        ({"epochs": "1", "machine.devices": "2"}, 16, 1000),
    ],
)
def test_steps_and_samples(fields: dict[str, str], steps: int, samples: int, tmp_path: Path) -> None:
    experiment = load("demo", {"batch_size": "32", **fields})
    assert size_of(experiment, staged(tmp_path, "rows", has_model=False)) == JobSize(
        steps=steps, samples=samples, tokens=50 * samples
    )


@pytest.mark.parametrize(
    ("fields", "steps"),
    [
        ({"epochs": "1"}, 28),  # 3 warm-up steps and 25 measured ones, more than a tenth of 32
        ({"epochs": "100"}, 320),
        ({"epochs": "100", "probe.samples": "3200"}, 100),
    ],
)
def test_a_probe_ends_early(fields: dict[str, str], steps: int, tmp_path: Path) -> None:
    experiment = load("demo", {"batch_size": "32", **fields})
    [arm] = probes([Arm(label="none", experiment=experiment, is_baseline=True)])
    size = size_of(arm.experiment, staged(tmp_path, "rows", has_model=False))
    assert size is not None
    assert size.steps == steps
