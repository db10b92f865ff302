"""Differences between our requests and the SDK's for every workload, with their reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.requests.differences import Difference, Like

HASH = "[0-9a-f]{32}"

SETTINGS: Mapping[str, Any] = {
    "weights": "pretrained",
    "compiler": "none",
    "precision": "auto",
    "padding": "buckets",
    "bucket_lengths": "64,128",
    "length_grouping": True,
    "attention": "auto",
    "dropout": "auto",
    "optimizer": "auto",
    "drop_last": False,
    "gradient_accumulation_steps": 1,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "weight_decay": 0.0,
    "max_grad_norm": 1.0,
    "lr_scheduler": "linear",
    "warmup_samples": 0,
    "seed": 42,
    "logging_steps": 10,
    "eval_strategy": "end",
    "save_strategy": "none",
    "save_total_limit": 1,
    "save_model": True,
    "steady_after_steps": 3,
}
"""Settings that our job always receives. Published scripts hard-code them, or use Trainer's defaults."""

NUMBER = "([0-9.e+-]+)"
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

MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
    "MALLOC_TOP_PAD_": str(64 * 2**20),
}


def everywhere(golden: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the differences from a flat golden request. `settings` are those that differ from `SETTINGS`."""
    job_only = {name: value for name, value in {**SETTINGS, **settings}.items() if value is not None}
    yield Difference(
        because="settings of our own job", ours={f"HyperParameters.{name}": value for name, value in job_only.items()}
    )
    yield from _names(golden, f"golden-{job_only['compiler']}-a0r0")
    yield from _places(golden)
    yield from _channels(golden)
    yield from _metrics(golden)
    yield from _environment(several=any("_instance_type" in name or "xla" in name for name in golden))
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


def _names(golden: Mapping[str, Any], job_name: str) -> Iterator[Difference]:
    names = ("TrainingJobName", "HyperParameters.sagemaker_job_name")
    yield Difference(
        because="the job's name is derived from its request, so that it starts only once",
        theirs=dict.fromkeys(names, "JOB_NAME"),
        ours=dict.fromkeys(names, job_name),
    )
    program = "HyperParameters.sagemaker_program"
    if golden[program] != "train.py":
        yield Difference(because="our own entry point", theirs={program: golden[program]}, ours={program: "train.py"})


def _places(golden: Mapping[str, Any]) -> Iterator[Difference]:
    source, output = "HyperParameters.sagemaker_submit_directory", "OutputDataConfig.S3OutputPath"
    yield Difference(
        because="a source is uploaded once, under a key derived from its content",
        theirs={source: golden[source]},
        ours={source: Like(f"s3://bucket/trainfare/source/{HASH}/sourcedir.tar.gz")},
    )
    yield Difference(
        because="all our files are under one prefix, which the policies name",
        theirs={output: "s3://bucket/"},
        ours={output: "s3://bucket/trainfare/output"},
    )


def _channels(golden: Mapping[str, Any]) -> Iterator[Difference]:
    place = "InputDataConfig.{}.DataSource.S3DataSource.{}"
    theirs = {name: value for name, value in golden.items() if name.startswith("InputDataConfig.")}
    # Both have these fields for `train`. Except for its address, they are compared.
    kept = [place.format("train", name) for name in ("S3DataType", "S3DataDistributionType")]
    channels = ["train", "validation", *(() if theirs else ("model",))]
    ours = {
        place.format(channel, name): value
        for channel in channels
        for name, value in (
            ("S3DataType", "S3Prefix"),
            ("S3DataDistributionType", "FullyReplicated"),
            ("S3Uri", Like(f"s3://bucket/trainfare/data/{HASH}")),
        )
    }
    yield Difference(
        because="data is tokenised locally and uploaded once, by content; the job evaluates on `validation`",
        theirs={name: value for name, value in theirs.items() if name not in kept},
        ours={name: value for name, value in ours.items() if not theirs or name not in kept},
    )


def _metrics(golden: Mapping[str, Any]) -> Iterator[Difference]:
    place = "AlgorithmSpecification.MetricDefinitions.{}.Regex"
    yield Difference(
        because="every job declares its metrics; the expressions match 3e-05 and never an empty number",
        theirs={name: value for name, value in golden.items() if "MetricDefinitions" in name},
        ours={place.format(name): f"'{key}': {NUMBER}" for name, key in METRICS.items()},
    )


def _environment(*, several: bool) -> Iterator[Difference]:
    cache = Like("/tmp/compile-cache|/opt/ml/checkpoints/.compile-cache")
    variables = {**MEMORY, "TORCHINDUCTOR_CACHE_DIR": cache}
    if several:
        variables["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = "110"
    yield Difference(
        because="freed memory and compiled programs are kept, and stopping processes have time for a checkpoint",
        ours={f"Environment.{name}": value for name, value in variables.items()},
    )
