"""All intended differences between our requests and the golden ones, each with its reason.

`tests/training/contract/test_goldens.py` fails for a difference that is not listed here, and for a listed difference
that does not exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.support.requests.comparison import Difference, Like, instead, renamed, without
from tests.support.requests.workloads import (
    FOR_SMDDP,
    FOR_SMP,
    FOR_TRCOMP,
    FOR_V100,
    HUGGING_FACE,
    NEWEST,
    TRANSFORMERS_4_6,
    TRCOMP,
    other_image,
)
from training.services.sagemaker.machines import ENTRY_POINT, arguments

HASH = "[0-9a-f]{32}"

Expected = Callable[[Mapping[str, Any]], list[Difference]]
"""Function that returns all differences of our request from a flat golden request."""


def workload(names: Mapping[str, str], *further: Difference, **settings: Any) -> Expected:
    """Return the differences of one workload.

    `names` maps their hyperparameters to ours with equal values. `settings` are our job's settings that differ from
    `SETTINGS`; None omits a setting. `further` are differences of this workload only.
    """

    def expected(golden: Mapping[str, Any]) -> list[Difference]:
        same = [renamed(theirs, ours, golden, "our job's name for it") for theirs, ours in names.items()]
        return [*everywhere(golden, settings), *same, *further]

    return expected


def everywhere(golden: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the differences that all workloads have. `settings` are those that differ from `SETTINGS`."""
    effective = {name: value for name, value in {**SETTINGS, **settings}.items() if value is not None}
    yield Difference(
        because="settings of our own job", ours={f"HyperParameters.{name}": value for name, value in effective.items()}
    )
    yield from _names(golden, f"golden-{effective['compiler']}-a0r0")
    yield Difference(
        because="the image's own entry point passes no SIGTERM on, so a stop would leave no checkpoint",
        ours={
            "AlgorithmSpecification.ContainerEntrypoint": list(ENTRY_POINT),
            "AlgorithmSpecification.ContainerArguments": list(arguments()),
        },
    )
    yield from _locations(golden)
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
        because="a job's name is derived from its request, so that no job starts twice",
        theirs=dict.fromkeys(names, "JOB_NAME"),
        ours=dict.fromkeys(names, job_name),
    )
    program = "HyperParameters.sagemaker_program"
    if golden[program] != "train.py":
        yield Difference(because="our own entry point", theirs={program: golden[program]}, ours={program: "train.py"})


def _locations(golden: Mapping[str, Any]) -> Iterator[Difference]:
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


def _channels(golden: Mapping[str, Any]) -> Iterator[Difference]:
    path = "InputDataConfig.{}.DataSource.S3DataSource.{}"
    theirs = {name: value for name, value in golden.items() if name.startswith("InputDataConfig.")}
    # Both requests have these fields for `train`, with the same values.
    kept = [path.format("train", name) for name in ("S3DataType", "S3DataDistributionType")]
    channels = ["train", "validation", *(() if theirs else ("model",))]
    ours = {
        path.format(channel, name): value
        for channel in channels
        for name, value in (
            ("S3DataType", "S3Prefix"),
            ("S3DataDistributionType", "FullyReplicated"),
            ("S3Uri", Like(f"s3://bucket/trainfare/data/{HASH}/")),
        )
    }
    yield Difference(
        because="data is tokenised once and uploaded once, by its hash; the job evaluates on `validation`",
        theirs={name: value for name, value in theirs.items() if name not in kept},
        ours={name: value for name, value in ours.items() if not theirs or name not in kept},
    )


def _metrics(golden: Mapping[str, Any]) -> Iterator[Difference]:
    path = "AlgorithmSpecification.MetricDefinitions.{}.Regex"
    yield Difference(
        because="every job defines its metrics; the expressions match 3e-05 and do not match an empty number",
        theirs={name: value for name, value in golden.items() if "MetricDefinitions" in name},
        ours={path.format(name): f"'{key}': ([0-9.e+-]+)" for name, key in METRICS.items()},
    )


def _environment(*, several: bool) -> Iterator[Difference]:
    cache = Like("/tmp/compile-cache|/opt/ml/checkpoints/.compile-cache")
    variables = {**MEMORY, "TORCHINDUCTOR_CACHE_DIR": cache}
    if several:
        variables["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = "110"
    yield Difference(
        because="freed memory and compiled code are kept, and stopped processes get time for a checkpoint",
        ours={f"Environment.{name}": value for name, value in variables.items()},
    )


MODEL_FOLDER = without("SM_MODEL_DIR sets the folder", output_dir="/opt/ml/model")
FP16 = instead("one field for all number formats", {"fp16": True}, precision="fp16")
ALWAYS_TRAINS = without("our job always trains, then evaluates", do_train=True, do_eval=True)
STEPS = without("the limit on steps ends the training before 2 epochs", num_train_epochs=2)
CHECKPOINTS = "CheckpointConfig.S3Uri"

TRAIN = {"model_name": "model", "train_batch_size": "batch_size"}
PER_DEVICE = {"per_device_train_batch_size": "batch_size", "per_device_eval_batch_size": "eval_batch_size"}
SST2 = {"model_type": "model", "block_size": "max_length", "num_train_epochs": "epochs", **PER_DEVICE}
SST2 |= {"dataloader_drop_last": "drop_last"}

SQUAD_DIFFERENCES = (MODEL_FOLDER, without("the number of processes is detected, not passed", n_gpus=1))
SQUAD_SETTINGS = {"task": "question-answering", "max_length": 384}
SST2_SETTINGS = {"task": "causal-lm", "weights": "random", "precision": None, "drop_last": None, "save_model": False}
SST2_SETTINGS |= {"eval_strategy": None, "save_strategy": None, "logging_steps": None}
SST2_DIFFERENCES = (
    FP16,
    MODEL_FOLDER,
    without("data and tokenizer are staged", dataset_name="glue", dataset_config_name="sst2", tokenizer_name="gpt2"),
    without("our job always trains, in its own folder", do_train=True, overwrite_output_dir=True),
    instead("all arms are evaluated at the end", {"do_eval": False, "evaluation_strategy": "no"}, eval_strategy="end"),
    instead("our value for no checkpoints is none", {"save_strategy": "no"}, save_strategy="none"),
)

DIFFERENCES: Mapping[str, Expected] = {
    "squad-albert-native": workload(
        TRAIN,
        *SQUAD_DIFFERENCES,
        other_image("pytorch-training:1.11.0-gpu-py38", FOR_V100),
        **SQUAD_SETTINGS,
        eval_batch_size=28,
    ),
    "squad-albert-trcomp": workload(TRAIN, *SQUAD_DIFFERENCES, **SQUAD_SETTINGS, compiler="trcomp", eval_batch_size=52),
    "emotion-bert-trcomp": workload(
        {"model_id": "model", "train_batch_size": "batch_size"},
        FP16,
        other_image(f"{TRCOMP}:1.9.0-transformers4.11.0-gpu-py38-cu111-ubuntu20.04", FOR_TRCOMP),
        task="classification",
        compiler="trcomp",
        precision=None,
        max_length=512,
        logging_steps=50,
        eval_strategy="epoch",
        target_metric="eval_accuracy",
        target_value=0.92,
        target_direction="max",
    ),
    "sst2-gpt2-native-ddp": workload(
        SST2,
        *SST2_DIFFERENCES,
        instead("the number of steps in an epoch", {"logging_strategy": "epoch"}, logging_steps=40),
        instead(
            "PyTorch DDP as in the workload: SageMaker's library, which this flag starts, does not run on g4dn",
            {
                "sagemaker_distributed_dataparallel_enabled": True,
                "sagemaker_distributed_dataparallel_custom_mpi_options": "",
            },
            sagemaker_pytorch_ddp_enabled=True,
        ),
        other_image("pytorch-training:1.11-gpu-py38", NEWEST),
        **SST2_SETTINGS,
    ),
    "sst2-gpt2-trcomp-xla": workload(
        SST2,
        *SST2_DIFFERENCES,
        instead("the number of steps in an epoch", {"logging_strategy": "epoch"}, logging_steps=20),
        **SST2_SETTINGS,
        compiler="trcomp",
    ),
    "reviews-distilbert-smddp": workload(
        {"model_id": "model", **PER_DEVICE},
        FP16,
        other_image(f"{HUGGING_FACE}:1.9-transformers4.12-gpu-py38-cu111-ubuntu20.04", FOR_SMDDP),
        instead(
            "evaluations and checkpoints have separate fields",
            {"strategy": "steps", "steps": 5000},
            eval_strategy="steps",
            eval_steps=5000,
            save_strategy="steps",
            save_steps=5000,
        ),
        instead(
            "the metric for the best model has its full name",
            {"load_best_model_at_end": True, "metric_for_best_model": "f1"},
            best_metric="eval_f1_macro",
        ),
        Difference(
            because="checkpoints are kept, so that the same job resumes from them",
            ours={CHECKPOINTS: "s3://bucket/trainfare/checkpoints/golden-none-a0r0"},
        ),
        task="classification",
        precision=None,
        max_length=512,
        logging_steps=100,
        eval_strategy=None,
        save_strategy=None,
        save_total_limit=None,
    ),
    "squad-bert-large-smddp": workload(
        {"model_name_or_path": "model", "max_seq_length": "max_length", **PER_DEVICE},
        *(FP16, MODEL_FOLDER, ALWAYS_TRAINS, STEPS),
        other_image(TRANSFORMERS_4_6, FOR_SMDDP),
        without("data is staged here and cut into windows", dataset_name="squad", doc_stride=128),
        instead("one field for all kinds of padding", {"pad_to_max_length": True}, padding="max_length"),
        task="question-answering",
        precision=None,
        padding=None,
        bucket_lengths=None,
        learning_rate=5e-5,
    ),
    "mnli-roberta-large-smp": workload(
        {"model_name_or_path": "model", **PER_DEVICE},
        *(MODEL_FOLDER, ALWAYS_TRAINS, STEPS),
        other_image(TRANSFORMERS_4_6, FOR_SMP),
        without("data is staged here", task_name="mnli"),
        without("predictions of an evaluation are a table of the run", do_predict=True),
        task="classification",
        max_length=128,
        learning_rate=16e-5,
        warmup_samples=480,
        weight_decay=0.1,
        logging_steps=25,
    ),
    "spot-distilbert": workload(
        TRAIN,
        other_image(TRANSFORMERS_4_6, FOR_V100),
        without("SM_CHECKPOINT_DIR sets the folder", output_dir="/opt/ml/checkpoints"),
        Difference(
            because="each job has its own folder for checkpoints",
            theirs={CHECKPOINTS: "s3://bucket/using-spot/checkpoints"},
            ours={CHECKPOINTS: "s3://bucket/trainfare/checkpoints/golden-none-a0r0"},
        ),
        task="classification",
        max_length=128,
        eval_batch_size=32,
        learning_rate=5e-5,
        logging_steps=50,
        eval_strategy="epoch",
        save_strategy="steps",
        save_steps=100,
    ),
}


SETTINGS: Mapping[str, Any] = {
    "weights": "pretrained",
    "compiler": "none",
    "precision": "auto",
    "padding": "auto",
    "bucket_lengths": "64,128",
    "length_grouping": True,
    "attention": "auto",
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
"""Settings that every plan passes. The published scripts set them in their code, or use Trainer's defaults."""

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
