"""AWS's training images with PyTorch, as `published.json` lists them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from training.contract.image_address import Image, read_image

FILE = Path(__file__).with_name("published.json")
TRANSFORMERS = "huggingface-pytorch-training"
TRANSFORMERS_COMPILER = "huggingface-pytorch-trcomp-training"
TRANSFORMERS_NEURON = "huggingface-pytorch-training-neuronx"
PYTORCH = "pytorch-training"
PYTORCH_NEURON = "pytorch-training-neuronx"


class Published(BaseModel):
    """Contents of one image."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repository: str
    """Name of the ECR repository, which stands for the family."""
    transformers: str | None
    """Version of Transformers. None if the image does not contain it."""
    pytorch: str
    python: str
    """Version of Python without the full stop, as in the tag: `312`."""
    cuda: str | None
    """Version of CUDA as in the tag: `cu130`. None if no source states it."""
    devices: tuple[str, ...]
    """`gpu`, `cpu` or both; or `neuron`, which is Trainium."""
    tag: str | None = None
    """Tag, for images that SageMaker's SDK cannot name."""

    def has(self, versions: dict[str, str]) -> bool:
        """Return whether the image has these versions: `{"pytorch": "2.5"}` matches 2.5.1 and not 2.50."""
        own = {"transformers": self.transformers, "pytorch": self.pytorch}
        return all(f"{own[name]}.".startswith(f"{version}.") for name, version in versions.items())

    def supports_volta(self) -> bool:
        """Return whether the image is sure to have kernels for the V100.

        PyTorch's builds for CUDA 13 have none. Those for CUDA 12.8 and 12.9 had none in PyTorch 2.7 and from 2.11 on
        (pytorch/pytorch#157517 and #172352).
        """
        return cuda_version(self.cuda) < (12, 8)


@cache
def published_images() -> tuple[Published, ...]:
    """Return all images, those with Transformers first, by ascending versions within a family."""
    return tuple(Published.model_validate(each) for each in json.loads(FILE.read_text())["images"])


@cache
def families() -> frozenset[str]:
    return frozenset(each.repository for each in published_images())


def aws_image(uri: str) -> Image | None:
    """Return the parts of the address of an AWS training image, or None for any other image."""
    image = read_image(uri)
    if image is None or image.repository not in families():
        return None
    return image


def cuda_of(image: Image) -> tuple[int, ...]:
    """Return the version of CUDA, such as (12, 4), from the tag or the table; () if it is unknown or absent."""
    if image.cuda is not None or not image.on_gpu:
        return cuda_version(image.cuda)
    versions = {"pytorch": image.pytorch_text} | ({"transformers": image.transformers} if image.transformers else {})
    rows = [each for each in published_images() if each.repository == image.repository and each.has(versions)]
    return cuda_version(rows[-1].cuda) if rows else ()


def cuda_version(text: str | None) -> tuple[int, ...]:
    """Return (13, 0) for `cu130`, and () for None."""
    return (int(text[2:-1]), int(text[-1])) if text else ()


def version_number(text: str) -> tuple[int, ...]:
    """Return (4, 21, 1) for `4.21.1`."""
    return tuple(int(part) for part in text.strip(".").split("."))
