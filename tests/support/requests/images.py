"""Images of the golden requests that cannot run our job, and the images that our requests name instead."""

from __future__ import annotations

from tests.support.requests.comparison import Difference
from tests.support.requests.workloads import DLC

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
