"""The reference workloads as experiments with a user's overrides, and the differences of their requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.requests.differences import Difference, renamed
from tests.support.requests.everywhere import everywhere

DLC = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
TRANSFORMERS_4_6 = f"{DLC}/huggingface-pytorch-training:1.7-transformers4.6-gpu-py36-cu110-ubuntu18.04"
ACCOUNT = {"service": "sagemaker", "aws.role": "arn:aws:iam::111122223333:role/train", "aws.bucket": "bucket"}
P3 = {**ACCOUNT, "machine.instance_type": "ml.p3.2xlarge"}
P3_16 = {**ACCOUNT, "machine.instance_type": "ml.p3.16xlarge", "machine.devices": "8"}
TWO_P3_16 = {**P3_16, "machine.instance_count": "2", "machine.volume_gib": "200", "machine.image": TRANSFORMERS_4_6}
G4DN = {**ACCOUNT, "machine.instance_type": "ml.g4dn.12xlarge", "machine.devices": "4", "precision": "fp16"}
MODEL_PARALLEL = (
    "{microbatches: 4, placement_strategy: spread, pipeline: interleaved, optimize: speed, partitions: 4, ddp: true}"
)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The experiment of one golden request."""

    experiment: str
    overrides: Mapping[str, str]
    names: Mapping[str, str]
    """The golden request's hyperparameter to ours with the same value."""
    settings: Mapping[str, Any]
    """Settings of our job that differ from `everywhere.SETTINGS`; None omits one."""
    differences: Sequence[Difference] = field(default=())
    """Differences of this workload alone."""

    def expected(self, golden: Mapping[str, Any]) -> list[Difference]:
        """Return all differences from the flat golden request."""
        because = "our job's name for it"
        same = [renamed(theirs, ours, golden, because) for theirs, ours in self.names.items()]
        return [*everywhere(golden, self.settings), *same, *self.differences]


def without(because: str, **theirs: Any) -> Difference:
    """Return the difference of hyperparameters that ours lacks."""
    return Difference(because=because, theirs={f"HyperParameters.{name}": value for name, value in theirs.items()})


def instead(because: str, theirs: Mapping[str, Any], **ours: Any) -> Difference:
    """Return the difference of hyperparameters that ours expresses in another way."""
    named = [{f"HyperParameters.{name}": value for name, value in side.items()} for side in (theirs, ours)]
    return Difference(because=because, theirs=named[0], ours=named[1])


PLACE = without("the container sets the folder for the model", output_dir="/opt/ml/model")
FP16 = instead("one field for all number formats", {"fp16": True}, precision="fp16")
DOES = without("our job always trains, then evaluates", do_train=True, do_eval=True)
STEPS = without("2 epochs and fewer steps: the steps end it", num_train_epochs=2)

SQUAD = {
    "names": {"model_name": "model", "train_batch_size": "batch_size"},
    "differences": (PLACE, without("processes are counted, not told", n_gpus=1)),
}
SQUAD_SETTINGS = {"task": "question-answering", "max_length": 384}

PER_DEVICE = {"per_device_train_batch_size": "batch_size", "per_device_eval_batch_size": "eval_batch_size"}

SST2 = {
    "names": {
        "model_type": "model",
        "block_size": "max_length",
        "num_train_epochs": "epochs",
        **PER_DEVICE,
        "dataloader_drop_last": "drop_last",
    },
}
SST2_SETTINGS = {"task": "causal-lm", "weights": "random", "precision": None, "drop_last": None, "save_model": False}
SST2_SETTINGS |= {"eval_strategy": None, "save_strategy": None, "logging_steps": None}
SST2_DIFFERENCES = (
    FP16,
    PLACE,
    without(
        "data is staged, tokenizer with it", dataset_name="glue", dataset_config_name="sst2", tokenizer_name="gpt2"
    ),
    without("our job always trains, in a folder of its own", do_train=True, overwrite_output_dir=True),
    instead(
        "one evaluation at the end compares the arms",
        {"do_eval": False, "evaluation_strategy": "no"},
        eval_strategy="end",
    ),
    instead("no checkpoints: ours is called none", {"save_strategy": "no"}, save_strategy="none"),
)

WORKLOADS = {
    "squad-albert-native": Workload(
        experiment="squad-albert",
        overrides={**P3, "machine.image": f"{DLC}/pytorch-training:1.11.0-gpu-py38"},
        settings={**SQUAD_SETTINGS, "eval_batch_size": 28},
        **SQUAD,
    ),
    "squad-albert-trcomp": Workload(
        experiment="squad-albert",
        overrides={**P3, "compiler": "trcomp", "batch_size": "52"},
        settings={**SQUAD_SETTINGS, "compiler": "trcomp", "eval_batch_size": 52},
        **SQUAD,
    ),
    "emotion-bert-trcomp": Workload(
        experiment="emotion-bert",
        overrides={
            **P3,
            "compiler": "trcomp",
            "precision": "fp16",
            "machine.image": f"{DLC}/huggingface-pytorch-trcomp-training:"
            "1.9.0-transformers4.11.0-gpu-py38-cu111-ubuntu20.04",
        },
        names={"model_id": "model", "train_batch_size": "batch_size"},
        settings={
            "task": "classification",
            "compiler": "trcomp",
            "precision": None,
            "max_length": 512,
            "logging_steps": 50,
            "eval_strategy": "epoch",
            "target_metric": "eval_accuracy",
            "target_value": 0.92,
            "target_direction": "max",
        },
        differences=(FP16,),
    ),
    "sst2-gpt2-native-ddp": Workload(
        experiment="sst2-gpt2",
        overrides={
            **G4DN,
            "eval_batch_size": "8",
            "logging_steps": "40",
            "machine.launcher": "pytorchddp",
            "machine.image": f"{DLC}/pytorch-training:1.11-gpu-py38",
        },
        settings=SST2_SETTINGS,
        differences=(
            *SST2_DIFFERENCES,
            instead("an epoch's steps, as a number", {"logging_strategy": "epoch"}, logging_steps=40),
            instead(
                "PyTorch DDP: SageMaker's library, which this flag starts, does not run on g4dn",
                {
                    "sagemaker_distributed_dataparallel_enabled": True,
                    "sagemaker_distributed_dataparallel_custom_mpi_options": "",
                },
                sagemaker_pytorch_ddp_enabled=True,
            ),
        ),
        **SST2,
    ),
    "sst2-gpt2-trcomp-xla": Workload(
        experiment="sst2-gpt2",
        overrides={
            **G4DN,
            "compiler": "trcomp",
            "batch_size": "20",
            "eval_batch_size": "8",
            "logging_steps": "20",
            "machine.image": f"{DLC}/huggingface-pytorch-trcomp-training:"
            "1.11-transformers4.21-gpu-py38-cu113-ubuntu20.04",
        },
        settings={**SST2_SETTINGS, "compiler": "trcomp"},
        differences=(
            *SST2_DIFFERENCES,
            instead("an epoch's steps, as a number", {"logging_strategy": "epoch"}, logging_steps=20),
        ),
        **SST2,
    ),
    "reviews-distilbert-smddp": Workload(
        experiment="reviews-distilbert",
        overrides={
            **P3_16,
            "precision": "fp16",
            "machine.launcher": "smddp",
            "machine.image": f"{DLC}/huggingface-pytorch-training:1.9-transformers4.12-gpu-py38-cu111-ubuntu20.04",
        },
        names={"model_id": "model", **PER_DEVICE},
        settings={
            "task": "classification",
            "precision": None,
            "max_length": 512,
            "logging_steps": 100,
            "eval_strategy": None,
            "save_strategy": None,
            "save_total_limit": None,
        },
        differences=(
            FP16,
            instead(
                "evaluations and checkpoints each have their own field",
                {"strategy": "steps", "steps": 5000},
                eval_strategy="steps",
                eval_steps=5000,
                save_strategy="steps",
                save_steps=5000,
            ),
            instead(
                "the metric by which the best is kept, by its full name",
                {"load_best_model_at_end": True, "metric_for_best_model": "f1"},
                best_metric="eval_f1_macro",
            ),
            Difference(
                because="checkpoints are kept, so that the same job resumes from them",
                ours={"CheckpointConfig.S3Uri": "s3://bucket/trainfare/checkpoints/golden-none-a0r0"},
            ),
        ),
    ),
    "squad-bert-large-smddp": Workload(
        experiment="bert-large-squad-dp",
        overrides={**TWO_P3_16, "precision": "fp16", "machine.launcher": "smddp"},
        names={
            "model_name_or_path": "model",
            "max_seq_length": "max_length",
            **PER_DEVICE,
        },
        settings={
            "task": "question-answering",
            "precision": None,
            "padding": None,
            "bucket_lengths": None,
            "learning_rate": 5e-5,
        },
        differences=(
            *(FP16, PLACE, DOES, STEPS),
            without("data is staged here, windows cut", dataset_name="squad", doc_stride=128),
            instead("one field for all ways to pad", {"pad_to_max_length": True}, padding="max_length"),
        ),
    ),
    "mnli-roberta-large-smp": Workload(
        experiment="roberta-large-mnli-mp",
        overrides={**TWO_P3_16, "machine.launcher": "smp", "machine.model_parallel": MODEL_PARALLEL},
        names={"model_name_or_path": "model", **PER_DEVICE},
        settings={
            "task": "classification",
            "max_length": 128,
            "learning_rate": 16e-5,
            "warmup_samples": 480,
            "weight_decay": 0.1,
            "logging_steps": 25,
        },
        differences=(
            *(PLACE, DOES, STEPS),
            without("data is staged here", task_name="mnli"),
            without("an evaluation's predictions are a table of the run", do_predict=True),
        ),
    ),
    "spot-distilbert": Workload(
        experiment="distilbert-spot",
        overrides={
            **P3,
            "machine.spot": "true",
            "machine.max_wait_seconds": "3600",
            "machine.image": TRANSFORMERS_4_6,
        },
        names={"model_name": "model", "train_batch_size": "batch_size"},
        settings={
            "task": "classification",
            "max_length": 128,
            "eval_batch_size": 32,
            "learning_rate": 5e-5,
            "logging_steps": 50,
            "eval_strategy": "epoch",
            "save_strategy": "steps",
            "save_steps": 100,
        },
        differences=(
            without("the container sets the folder for checkpoints", output_dir="/opt/ml/checkpoints"),
            Difference(
                because="each job has its own folder for checkpoints",
                theirs={"CheckpointConfig.S3Uri": "s3://bucket/using-spot/checkpoints"},
                ours={"CheckpointConfig.S3Uri": "s3://bucket/trainfare/checkpoints/golden-none-a0r0"},
            ),
        ),
    ),
}
