"""Reference workloads: the experiment and the overrides that reproduce each golden request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    """Experiment of one golden request."""

    experiment: str
    overrides: Mapping[str, str]


WORKLOADS = {
    "squad-albert-native": Workload(
        experiment="squad-albert",
        overrides={**P3, "machine.image": f"{DLC}/pytorch-training:1.11.0-gpu-py38"},
    ),
    "squad-albert-trcomp": Workload(
        experiment="squad-albert",
        overrides={**P3, "compiler": "trcomp", "batch_size": "52"},
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
    ),
    "reviews-distilbert-smddp": Workload(
        experiment="reviews-distilbert",
        overrides={
            **P3_16,
            "precision": "fp16",
            "machine.launcher": "smddp",
            "machine.image": f"{DLC}/huggingface-pytorch-training:1.9-transformers4.12-gpu-py38-cu111-ubuntu20.04",
        },
    ),
    "squad-bert-large-smddp": Workload(
        experiment="bert-large-squad-dp",
        overrides={**TWO_P3_16, "precision": "fp16", "machine.launcher": "smddp"},
    ),
    "mnli-roberta-large-smp": Workload(
        experiment="roberta-large-mnli-mp",
        overrides={**TWO_P3_16, "machine.launcher": "smp", "machine.model_parallel": MODEL_PARALLEL},
    ),
    "spot-distilbert": Workload(
        experiment="distilbert-spot",
        overrides={
            **P3,
            "machine.spot": "true",
            "machine.max_wait_seconds": "3600",
            "machine.image": TRANSFORMERS_4_6,
        },
    ),
}
