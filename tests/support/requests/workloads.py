"""Reference workloads: the experiment and the overrides that reproduce each golden request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.support.requests.comparison import Difference

DLC = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
ACCOUNT = {"service": "sagemaker", "aws.role": "arn:aws:iam::111122223333:role/train", "aws.bucket": "bucket"}
P3 = {**ACCOUNT, "machine.instance_type": "ml.p3.2xlarge"}
P3_16 = {**ACCOUNT, "machine.instance_type": "ml.p3.16xlarge", "machine.devices": "8"}
TWO_P3_16 = {**P3_16, "machine.instance_count": "2", "machine.volume_gib": "200"}
# SageMaker's libraries support PyTorch up to 2.2.0 and 2.0, and our job needs Transformers from 4.21 on.
SMDDP_IMAGE = {"machine.image": "{transformers: 4.36}"}
SMP_IMAGE = {"machine.image": "{transformers: 4.28, pytorch: 2.0}"}
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
        overrides=P3,
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
        },
    ),
    "sst2-gpt2-native-ddp": Workload(
        experiment="sst2-gpt2",
        overrides={
            **G4DN,
            "eval_batch_size": "8",
            "logging_steps": "40",
            "machine.launcher": "pytorchddp",
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
            **SMDDP_IMAGE,
        },
    ),
    "squad-bert-large-smddp": Workload(
        experiment="bert-large-squad-dp",
        overrides={**TWO_P3_16, **SMDDP_IMAGE, "precision": "fp16", "machine.launcher": "smddp"},
    ),
    "mnli-roberta-large-smp": Workload(
        experiment="roberta-large-mnli-mp",
        overrides={**TWO_P3_16, **SMP_IMAGE, "machine.launcher": "smp", "machine.model_parallel": MODEL_PARALLEL},
    ),
    "spot-distilbert": Workload(
        experiment="distilbert-spot",
        overrides={
            **P3,
            "machine.spot": "true",
            "machine.max_wait_seconds": "3600",
        },
    ),
}


HUGGING_FACE = "huggingface-pytorch-training"
TRCOMP = "huggingface-pytorch-trcomp-training"
NEWEST = f"{HUGGING_FACE}:2.9.0-transformers5.3.0-gpu-py312-cu130-ubuntu22.04"
FOR_V100 = f"{HUGGING_FACE}:2.5.1-transformers4.49.0-gpu-py311-cu124-ubuntu22.04"
FOR_SMDDP = f"{HUGGING_FACE}:2.1.0-transformers4.36.0-gpu-py310-cu121-ubuntu20.04"
FOR_SMP = f"{HUGGING_FACE}:2.0.0-transformers4.28.1-gpu-py310-cu118-ubuntu20.04"
FOR_TRCOMP = f"{TRCOMP}:1.11.0-transformers4.21.1-gpu-py38-cu113-ubuntu20.04"
FOR_TRAINIUM = "huggingface-pytorch-training-neuronx:2.8.0-transformers4.55.4-neuronx-py310-sdk2.26.0-ubuntu22.04"
TRANSFORMERS_4_6 = f"{HUGGING_FACE}:1.7-transformers4.6-gpu-py36-cu110-ubuntu18.04"


def other_image(theirs: str, ours: str) -> Difference:
    field = "AlgorithmSpecification.TrainingImage"
    because = "our job needs Transformers from 4.21 on, which the published image does not contain"
    return Difference(because=because, theirs={field: f"{DLC}/{theirs}"}, ours={field: f"{DLC}/{ours}"})
