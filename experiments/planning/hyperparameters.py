"""Arguments of the job, and the request to stage its inputs, resolved from an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from experiments.schema.experiment import Experiment
from training.contract.job_spec import Scalar
from training.contract.s3_location import AccountFields
from training.job.settings.declared import SETTINGS, traits_of
from training.job.tasks import METRICS_BY_NAME
from training.staging.sources.request import InputFields, StagingRequest

KEEPS_NOTHING = {"save_model": False, "save_strategy": "none", "save_steps": None, "best_metric": None, "target": None}
"""Fields without effect in a calibration, which trains nothing."""


def hyperparameters(experiment: Experiment, bucket_lengths: Sequence[int]) -> dict[str, Scalar]:
    """Return the arguments of `training/job/train.py`, without those that are not set."""
    if experiment.calibration is not None:
        experiment = experiment.model_copy(update=KEEPS_NOTHING)
    eval_strategy, eval_steps = experiment.evaluation
    arguments: dict[str, Scalar | None] = {
        **_shared_settings(experiment),
        **asdict(experiment.optimiser),
        "model": experiment.model or experiment.model_type,
        "weights": experiment.first_weights,
        "bucket_lengths": ",".join(map(str, bucket_lengths)) if experiment.padding in {"auto", "buckets"} else None,
        "eval_batch_size": experiment.eval_batch_size or experiment.batch_size,
        "eval_strategy": eval_strategy,
        "eval_steps": eval_steps,
    }
    for section in ("target", "probe", "calibration"):
        arguments |= {f"{section}_{name}": value for name, value in getattr(experiment, section) or ()}
    if target := experiment.target:
        arguments["target_direction"] = target.direction or METRICS_BY_NAME[target.metric].direction
        arguments["target_stop"] = target.stop or None
    if calibration := experiment.calibration:
        arguments["calibration_batch_sizes"] = ",".join(map(str, calibration.batch_sizes))
    return {name: value for name, value in arguments.items() if value is not None}


def _shared_settings(experiment: Experiment) -> dict[str, Scalar | None]:
    """Return the settings that experiment and job share. Requests stay as they were before a setting was introduced."""
    values = {}
    for name, field in SETTINGS.items():
        traits, value = traits_of(field), getattr(experiment, name)
        is_new = bool(traits.since) and value == field.default
        if not is_new and traits.compiler in ("", experiment.compiler):
            values[name] = value
    return values


def _largest_step(experiment: Experiment) -> int:
    """Return the number of samples in the largest optimizer step of the job."""
    sizes = experiment.calibration.batch_sizes if experiment.calibration else ()
    return max(experiment.global_batch_size // experiment.batch_size * size for size in (experiment.batch_size, *sizes))


def staging_request(experiment: Experiment) -> StagingRequest:
    """Return the staging request of an experiment. Arms that read the same data have equal requests."""
    assert experiment.data is not None
    return StagingRequest(
        **{name: getattr(experiment, name) for name in InputFields.model_fields},
        task=experiment.task,
        data=experiment.data,
        model=experiment.model,
        model_revision=experiment.model_revision,
        weights=experiment.first_weights,
        max_length=experiment.max_length,
        bucket_lengths=experiment.bucket_lengths,
        min_train_rows=_largest_step(experiment),
        account=AccountFields(region=experiment.aws.region, profile=experiment.aws.profile),
    )
