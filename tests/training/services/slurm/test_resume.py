"""A training of ours that Slurm requeues and preempts is the same training as an undisturbed one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from experiments.planning.job_source import make_job_source
from tests.support.job.arguments import job_arguments
from tests.support.job.job_process import example_rows, write_channel, write_tiny_model
from tests.support.services.following import follow
from tests.support.services.harness import SlurmHarness
from tests.support.services.slurm_cluster import SlurmCluster
from training.contract.events import Event
from training.contract.job_spec import JobSpec
from training.contract.request import build
from training.services.launcher import Job, submit

pytestmark = pytest.mark.slurm

STEPS_OF_EPOCH = 25


def started(harness: SlurmHarness, name: str, epochs: int) -> Job:
    home = harness.root
    spec = JobSpec(
        name=name,
        instance_type="slurm:low",
        hyperparameters=job_arguments(
            epochs=epochs,
            batch_size=2,
            precision="fp32",
            logging_steps=1,
            max_length=12,
            padding="longest",
            save_strategy="steps",
            save_steps=4,
            save_total_limit=1,
        ),
        channels={each: (home / each).as_uri() for each in ("train", "validation", "model")},
        source_uri=make_job_source(home).as_uri(),
        output_uri=(home / "outputs").as_uri(),
        checkpoint_uri=(home / f"checkpoints-{name}").as_uri(),
        environment={"TRAINFARE_CORES": "1", "TRAINFARE_SERVICE_FIELDS": '{"partition": "low"}'},
    )
    return submit(harness.service, build(spec))


def curve_of(events: list[Event]) -> dict[int, Any]:
    """Return loss, norm of the gradients and rate by step; a step that was repeated counts as it was last."""
    metrics = (event.fields for event in events if event.kind == "metric" and "loss" in event.fields["values"])
    return {
        each["step"]: tuple(each["values"][name] for name in ("loss", "grad_norm", "learning_rate")) for each in metrics
    }


def requeue(cluster: SlurmCluster, harness: SlurmHarness) -> None:
    cluster.run("scontrol", "requeue", (harness.job_folder() / "slurm-id").read_text())


def preempt(cluster: SlurmCluster, harness: SlurmHarness) -> None:
    cluster.run("sbatch", "-p", "high", "-c", "8", "--wrap", "sleep 1", f"--output={harness.root}/high")


@pytest.mark.parametrize(
    ("disturb", "epochs"),
    # Slurm's grace lets a preempted job run on for ten seconds.
    [pytest.param(requeue, 20, marks=pytest.mark.gate), pytest.param(preempt, 60)],
)
def test_a_disturbed_training_has_the_same_curve(
    harness: SlurmHarness,
    shared_cluster: SlurmCluster,
    disturb: Callable[[SlurmCluster, SlurmHarness], None],
    epochs: int,
) -> None:
    write_tiny_model(harness.root / "model")
    write_channel(harness.root / "train", *example_rows(50))
    write_channel(harness.root / "validation", *example_rows(13))
    undisturbed = [event for update in follow(started(harness, "alone", epochs)) for event in update.events]
    job, is_disturbed, events = started(harness, "job", epochs), False, list[Event]()
    for update in follow(job):
        events += update.events
        if not is_disturbed and any(event.kind == "metric" and event.fields["step"] >= 10 for event in update.events):
            disturb(shared_cluster, harness)
            is_disturbed = True
    description = job.describe()
    assert description["TrainingJobStatus"] == "Completed"
    assert [each["Status"] for each in description["SecondaryStatusTransitions"]].count("Interrupted") == 1
    assert len([event for event in events if event.kind == "start"]) == 2
    assert curve_of(events) == curve_of(undisturbed)
    assert set(curve_of(events)) == set(range(1, STEPS_OF_EPOCH * epochs + 1))
