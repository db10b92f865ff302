"""The request of a job on Trainium, compared with the one that SageMaker's SDK v2 sends for AWS's own example.

`trainium_request.json` is the request of SDK 2.257.1's HuggingFace estimator, captured before it was sent, with the
hyperparameters, the instance type and the launcher of aws-neuron/aws-neuron-sagemaker-samples,
`training/trn1-bert-fine-tuning-on-sagemaker` (commit 3f4eeea), and the image of AWS's catalogue. The example sets
`NEURON_CC_FLAGS` in its script; here it is a variable of the estimator.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.requests.building import Built
from tests.support.requests.comparison import Difference, Like, fields_of, unexplained
from tests.support.requests.differences import TRAIN, workload
from tests.support.requests.workloads import ACCOUNT
from training.services.local import toolkit

GOLDEN = Path(__file__).with_name("trainium_request.json")
TRN1 = {**ACCOUNT, "compiler": "neuron", "machine.instance_type": "ml.trn1.2xlarge", "machine.devices": "2"}
TRN1 |= {"padding": "max_length"}
# Two Neuron cores train batches of 8, so 16 is the batch size for which the example's learning rate is planned.
EXAMPLE = {**TRN1, "base_learning_rate": "5e-5", "base_batch_size": "16", "batch_size": "8", "eval_batch_size": "8"}
EXAMPLE |= {"epochs": "10", "max_length": "128"}

CACHE = "NEURON_COMPILE_CACHE_URL"
FLAGS = "NEURON_CC_FLAGS"

DIFFERENCES = workload(
    TRAIN,
    Difference(
        because="programs are kept in S3, where the example copies an archive of them from job to job",
        ours={f"Environment.{CACHE}": Like("s3://bucket/trainfare/compiled/[0-9a-f]{16}")},
    ),
    task="classification",
    compiler="neuron",
    padding="max_length",
    bucket_lengths=None,
    max_length=128,
    logging_steps=50,
    eval_strategy="epoch",
    target_metric="eval_accuracy",
    target_value=0.92,
    target_direction="max",
)


def test_the_request_is_that_of_awss_example_except_for_the_listed_differences(built: Built) -> None:
    golden = fields_of(json.loads(GOLDEN.read_text()))
    assert unexplained(golden, fields_of(built("emotion-bert", **EXAMPLE)), DIFFERENCES(golden)) == []


def test_programs_are_kept_per_image_beside_those_of_inductor(built: Built) -> None:
    environment = built("demo", **TRN1)["Environment"]
    assert environment[FLAGS] == "--model-type=transformer"
    assert environment[CACHE].startswith("s3://bucket/trainfare/compiled/")
    assert "TRAINFARE_COMPILED_URI" not in environment
    older = built("demo", **TRN1, **{"machine.image": "{transformers: 4.51}"})["Environment"]
    assert older[CACHE].startswith("s3://bucket/trainfare/compiled/")
    assert older[CACHE] != environment[CACHE]


@pytest.mark.parametrize(
    "overrides",
    [
        {"compile_cache": "fresh"},
        {"aws.output_key": "alias/b"},
        {"aws.isolate_network": "true"},
    ],
)
def test_programs_stay_in_the_container_without_a_cache_in_s3(built: Built, overrides: dict[str, str]) -> None:
    assert built("demo", **TRN1, **overrides)["Environment"][CACHE] == "/tmp/neuron-compile-cache"


def test_two_machines_are_started_by_torchrun(built: Built) -> None:
    request = built("demo", **TRN1, **{"machine.instance_count": "2"})
    hyperparameters = toolkit.decoded(request["HyperParameters"])
    assert hyperparameters["sagemaker_torch_distributed_enabled"] is True
    assert hyperparameters["sagemaker_instance_type"] == "ml.trn1.2xlarge"
    assert "sagemaker_training_compiler_enabled" not in hyperparameters


def test_other_jobs_have_no_variables_of_neuron(built: Built) -> None:
    g5 = {**ACCOUNT, "machine.instance_type": "ml.g5.xlarge"}
    assert not {CACHE, FLAGS} & set(built("demo", **g5)["Environment"])
