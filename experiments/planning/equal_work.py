"""Planned comparisons that are certain to end "not comparable". Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from experiments.planning.costs import size_of
from experiments.planning.inputs import Inputs
from experiments.planning.load import Arm
from reports.comparison.comparison import work_differences
from reports.model.numbers import joined
from tracking.groups.planned_job import PlannedJob
from tracking.recorded.arms import Arm as RecordedArm
from tracking.recorded.arms import image_version
from tracking.recorded.recorded_job import Job, job_of
from training.staging.tokens.staged import Staged


def incomparable(arm_inputs: Iterable[tuple[Arm, Inputs]], jobs: Sequence[PlannedJob]) -> list[str]:
    """Return a sentence for each arm whose planned work differs from the baseline's as reports do not accept.

    `jobs` have their images and prices. Where the data is estimated, tokens are not compared.
    """
    first = {job.arm: job for job in reversed(jobs)}
    planned = [RecordedArm(arm.label, (_as_recorded(first[arm.label], arm, each),)) for arm, each in arm_inputs]
    baseline = next(arm for arm in planned if first[arm.label].is_baseline)
    own, sentences = first[baseline.label].settings, []
    for arm in planned:
        if differences := work_differences(arm, baseline):
            fields = [name for name, value in first[arm.label].settings.items() if value != own.get(name)]
            kinds = ",".join(dict.fromkeys(kind for kind, _ in differences))
            texts = "; ".join(text for _, text in differences)
            sentences.append(
                f"“{arm.label}” will be not comparable with “{baseline.label}” because of {joined(fields)}: "
                f"{texts}. `trainfare report --allow {kinds}` compares them anyway."
            )
    return sentences


def _as_recorded(job: PlannedJob, arm: Arm, inputs: Inputs) -> Job:
    """Return a planned job as the tracking server would record it once it has succeeded, as far as that is certain."""
    spec, size = job.spec, size_of(arm.experiment, inputs)
    is_exact = isinstance(inputs, Staged) and inputs.sample_rows is None
    counts = {"samples": size.samples, "tokens": size.tokens if is_exact else 1} if size else {}
    settings = {f"hp_{name}": str(value) for name, value in spec.hyperparameters.items()}
    machine = {"machine_instance_count": str(spec.instance_count), "machine_devices": str(spec.devices)}
    keys = {"data_key": job.data_key, "rows_key": job.data.rows_key, "instance_type": spec.instance_type}
    row = {**settings, **machine, **keys, **counts, "run_id": spec.name, "status": "FINISHED", "image": spec.image}
    row |= {"measured": "outside"} if job.script else {}
    row |= {"cost_usd": job.price.usd_per_hour} if job.price else {}
    version = image_version(job_of(row))  # of other images, only the job knows the libraries
    return job_of({**row, "image": None, "versions": None if version == spec.image else version})
