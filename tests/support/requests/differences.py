"""All intended differences between our requests and the golden ones, each with its reason.

`tests/training/contract/test_goldens.py` fails for a difference that is not listed here, and for a listed difference
that does not exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.requests.comparison import Difference, Like
from training.services.sagemaker.machines import ENTRY_POINT, arguments

HASH = "[0-9a-f]{32}"


def differences(name: str, golden: Mapping[str, Any]) -> list[Difference]:
    """Return all differences of our request from a flat golden request."""
    return [*_everywhere(golden), *_further(name, golden)]


def _everywhere(golden: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the differences that all workloads have."""
    compiler = "trcomp" if "HyperParameters.sagemaker_training_compiler_enabled" in golden else "none"
    job_name, checkpoints = f"golden-{compiler}-a0r0", "CheckpointConfig.S3Uri"
    names = ("TrainingJobName", "HyperParameters.sagemaker_job_name")
    yield Difference(
        because="a job's name is derived from its request, so that no job starts twice",
        theirs=dict.fromkeys(names, "JOB_NAME"),
        ours=dict.fromkeys(names, job_name),
    )
    yield Difference(
        because="each job has its own folder for checkpoints, so that the same job resumes from them",
        theirs={checkpoints: golden[checkpoints]} if checkpoints in golden else {},
        ours={checkpoints: f"s3://bucket/trainfare/checkpoints/{job_name}"},
    )
    yield Difference(
        because="the image's own entry point passes no SIGTERM on, so a stop would leave no checkpoint",
        ours={
            "AlgorithmSpecification.ContainerEntrypoint": list(ENTRY_POINT),
            "AlgorithmSpecification.ContainerArguments": list(arguments()),
        },
    )
    tags = {"experiment": Like(".+"), "group": "golden", "arm": "alone"}
    yield Difference(
        because="AWS's cost reports show experiments, groups and arms",
        ours={f"Tags.trainfare:{tag}.Value": value for tag, value in tags.items()},
    )
    source, output = "HyperParameters.sagemaker_submit_directory", "OutputDataConfig.S3OutputPath"
    yield Difference(
        because="a source is uploaded once, to a prefix named after its hash",
        theirs={source: golden[source]},
        ours={source: Like(f"s3://bucket/trainfare/source/{HASH}/sourcedir.tar.gz")},
    )
    yield Difference(
        because="all our objects share one prefix, to which the policies grant access",
        theirs={output: "s3://bucket/"},
        ours={output: "s3://bucket/trainfare/output"},
    )
    metric = "AlgorithmSpecification.MetricDefinitions.{}.Regex"
    yield Difference(
        because="every job defines its metrics; the expressions match 3e-05 and do not match an empty number",
        theirs={name: value for name, value in golden.items() if "MetricDefinitions" in name},
        ours={metric.format(name): f"'{key}': ([0-9.e+-]+)" for name, key in METRICS.items()},
    )
    is_spot = "EnableManagedSpotTraining" in golden
    cache = "/opt/ml/checkpoints/.compile-cache" if is_spot else "/tmp/compile-cache"
    variables = {**MEMORY, "TORCHINDUCTOR_CACHE_DIR": cache}
    if any("_instance_type" in name or "xla" in name for name in golden):
        variables["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = "110"
    yield Difference(
        because="freed memory and compiled code are kept, and stopped processes get time for a checkpoint",
        ours={f"Environment.{name}": value for name, value in variables.items()},
    )


def _further(name: str, golden: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the differences of some workloads."""
    if "DebugHookConfig.S3OutputPath" in golden:
        yield Difference(
            because="debugger and profiler slow training down and use up a quota of processing jobs: both are off",
            theirs={
                "DebugHookConfig.CollectionConfigurations": [],
                "DebugHookConfig.S3OutputPath": "s3://bucket/",
                "ProfilerConfig.DisableProfiler": False,
                "ProfilerConfig.S3OutputPath": "s3://bucket/",
            },
            ours={"ProfilerConfig.DisableProfiler": True},
        )
    if name.startswith(("squad-albert", "emotion", "sst2")):
        yield Difference(
            because="the repeats of a comparison are independent: each has its own seed",
            ours={"HyperParameters.seed": 42},
        )
    if name == "sst2-gpt2-native-ddp":
        yield Difference(
            because="PyTorch DDP as in the workload: SageMaker's library, which this flag starts, does not run on g4dn",
            theirs={
                "HyperParameters.sagemaker_distributed_dataparallel_enabled": True,
                "HyperParameters.sagemaker_distributed_dataparallel_custom_mpi_options": "",
            },
            ours={"HyperParameters.sagemaker_pytorch_ddp_enabled": True},
        )


METRICS = {
    "train_loss": "loss",
    "eval_loss": "eval_loss",
    "learning_rate": "learning_rate",
    "epoch": "epoch",
    "summary_train_loss": "train_loss",
    "summary_train_runtime": "train_runtime",
    "summary_train_samples_per_second": "train_samples_per_second",
    "summary_train_steps_per_second": "train_steps_per_second",
}

MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40), "MALLOC_TOP_PAD_": str(64 * 2**20)}
