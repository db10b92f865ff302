"""Arguments of the job, and the request to stage its inputs, resolved from an experiment."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.schema.compare_fields import TARGET_METRICS
from experiments.schema.experiment import Experiment
from training.contract.job_spec import Scalar
from training.contract.s3_location import AccountFields
from training.staging.sources.request import StagingRequest

UNCHANGED_FIELDS = (
    *("task", "model_revision", "compiler", "precision", "padding", "length_grouping", "attention"),
    *("optimizer", "dataloader_workers", "max_length", "batch_size", "drop_last", "gradient_accumulation_steps"),
    *("weight_decay", "max_grad_norm", "lr_scheduler", "warmup_samples", "epochs", "max_steps", "seed"),
    *("logging_steps", "save_strategy", "save_steps", "save_total_limit", "best_metric", "save_model"),
    "steady_after_steps",
)
"""Fields that a job takes unchanged."""
KEEPS_NOTHING = {"save_model": False, "save_strategy": "none", "save_steps": None, "best_metric": None, "target": None}
"""Fields without effect in a calibration, which trains nothing."""


def hyperparameters(experiment: Experiment, bucket_lengths: Sequence[int]) -> dict[str, Scalar]:
    """Return the arguments of `training/job/train.py`, without those that are not set."""
    if experiment.calibration is not None:
        experiment = experiment.model_copy(update=KEEPS_NOTHING)
    optimiser = experiment.optimiser
    eval_strategy, eval_steps = experiment.evaluation
    arguments: dict[str, Scalar | None] = {
        **{name: getattr(experiment, name) for name in UNCHANGED_FIELDS},
        "model": experiment.model or experiment.model_type,
        "weights": experiment.first_weights,
        **_compile_options(experiment),
        **_newer_options(experiment),
        "bucket_lengths": ",".join(map(str, bucket_lengths)) if experiment.padding in {"auto", "buckets"} else None,
        "eval_batch_size": experiment.eval_batch_size or experiment.batch_size,
        "learning_rate": optimiser.learning_rate,
        "adam_beta1": optimiser.adam_beta1,
        "adam_beta2": optimiser.adam_beta2,
        "adam_epsilon": optimiser.adam_epsilon,
        "eval_strategy": eval_strategy,
        "eval_steps": eval_steps,
    }
    arguments |= _target(experiment) | _probe(experiment) | _calibration(experiment)
    return {name: value for name, value in arguments.items() if value is not None}


def _newer_options(experiment: Experiment) -> dict[str, Scalar | None]:
    """Return options that earlier versions did not have; None for a default, so that other requests stay the same."""
    options = {"sharding": experiment.sharding, "kernels": experiment.kernels}
    return {name: None if value == Experiment.model_fields[name].default else value for name, value in options.items()}


def _compile_options(experiment: Experiment) -> dict[str, Scalar | None]:
    """Return the options of inductor; none for other compilers, whose jobs keep the arguments of earlier versions."""
    if experiment.compiler != "inductor":
        return {}
    return {name: getattr(experiment, name) for name in ("compile_scope", "compile_mode", "compile_dynamic")}


def _target(experiment: Experiment) -> dict[str, Scalar | None]:
    target = experiment.target
    if target is None:
        return {}
    return {
        "target_metric": target.metric,
        "target_value": target.value,
        "target_direction": target.direction or TARGET_METRICS[target.metric],
        "target_stop": target.stop or None,
    }


def _probe(experiment: Experiment) -> dict[str, Scalar | None]:
    probe = experiment.probe
    if probe is None:
        return {}
    return {
        "probe_precision": probe.precision,
        "probe_samples": probe.samples,
        "probe_eval_samples": probe.eval_samples,
    }


def _calibration(experiment: Experiment) -> dict[str, Scalar | None]:
    calibration = experiment.calibration
    if calibration is None:
        return {}
    sizes = ",".join(str(size) for size in calibration.batch_sizes)
    return {"calibration_batch_sizes": sizes, "calibration_seconds": calibration.seconds}


def _largest_step(experiment: Experiment) -> int:
    """Return the number of samples in the largest optimizer step of the job."""
    sizes = experiment.calibration.batch_sizes if experiment.calibration else ()
    return max(experiment.global_batch_size // experiment.batch_size * size for size in (experiment.batch_size, *sizes))


def staging_request(experiment: Experiment) -> StagingRequest:
    """Return the staging request of an experiment. Arms that read the same data have equal requests."""
    assert experiment.data is not None
    return StagingRequest(
        task=experiment.task,
        data=experiment.data,
        model=experiment.model,
        model_revision=experiment.model_revision,
        weights=experiment.first_weights,
        model_type=experiment.model_type,
        model_overrides=experiment.model_overrides,
        tokenizer=experiment.tokenizer,
        max_length=experiment.max_length,
        doc_stride=experiment.doc_stride,
        n_best_answers=experiment.n_best_answers,
        max_answer_length=experiment.max_answer_length,
        packing=experiment.packing is not False,
        bucket_lengths=experiment.bucket_lengths,
        min_train_rows=_largest_step(experiment),
        account=AccountFields(region=experiment.aws.region, profile=experiment.aws.profile),
    )
