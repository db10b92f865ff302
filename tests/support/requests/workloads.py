"""Published workloads: the experiment, its arm and the data that reproduce each golden request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.conftest import ROOT

DLC = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
ACCOUNT = {"service": "sagemaker", "aws.role": "arn:aws:iam::111122223333:role/train", "aws.bucket": "bucket"}
PUBLISHED = ROOT / "experiments" / "published"


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Experiment of one golden request."""

    experiment: str
    """Name of the file in `PUBLISHED`."""
    arm: str | None = None
    """Name of the arm; None for the experiment without its arms."""
    channels: Mapping[str, str] = field(default_factory=dict)
    """Channel to the prefix in the bucket from which the published job reads it."""

    @property
    def path(self) -> str:
        return str(PUBLISHED / f"{self.experiment}.yaml")

    @property
    def overrides(self) -> dict[str, str]:
        """Account and data of the golden request."""
        return ACCOUNT | {f"script.channels.{name}": f"s3://bucket/{key}" for name, key in self.channels.items()}


SQUAD = {"train": "samples/datasets/squad/train", "test": "samples/datasets/squad/eval"}
EMOTION = {"train": "samples/datasets/emotion/train", "test": "samples/datasets/emotion/test"}
MNLI = {"train": "samples/datasets/mnli/train", "test": "samples/datasets/mnli/eval"}
REVIEWS = {"train": "amazon_reviews_multi/train", "eval": "amazon_reviews_multi/test"}

WORKLOADS = {
    "squad-albert-native": Workload(experiment="squad-albert", arm="native", channels=SQUAD),
    "squad-albert-trcomp": Workload(experiment="squad-albert", arm="compiled", channels=SQUAD),
    "emotion-bert-trcomp": Workload(experiment="emotion-bert", arm="compiled", channels=EMOTION),
    "sst2-gpt2-native-ddp": Workload(experiment="sst2-gpt2", arm="native"),
    "sst2-gpt2-trcomp-xla": Workload(experiment="sst2-gpt2", arm="compiled"),
    "reviews-distilbert-smddp": Workload(experiment="reviews-distilbert", channels=REVIEWS),
    "squad-bert-large-smddp": Workload(experiment="bert-large-squad", channels=SQUAD),
    "mnli-roberta-large-smp": Workload(experiment="roberta-large-mnli", channels=MNLI),
    "spot-distilbert": Workload(experiment="distilbert-spot", channels={"train": EMOTION["train"]}),
}

HUGGING_FACE = "huggingface-pytorch-training"
TRCOMP = "huggingface-pytorch-trcomp-training"
NEWEST = f"{HUGGING_FACE}:2.9.0-transformers5.3.0-gpu-py312-cu130-ubuntu22.04"
FOR_V100 = f"{HUGGING_FACE}:2.5.1-transformers4.49.0-gpu-py311-cu124-ubuntu22.04"
FOR_TRCOMP = f"{TRCOMP}:1.11.0-transformers4.21.1-gpu-py38-cu113-ubuntu20.04"
FOR_TRAINIUM = "huggingface-pytorch-training-neuronx:2.8.0-transformers4.55.4-neuronx-py310-sdk2.26.0-ubuntu22.04"
TRANSFORMERS_4_6 = f"{HUGGING_FACE}:1.7-transformers4.6-gpu-py36-cu110-ubuntu18.04"
