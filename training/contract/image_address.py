"""Read the versions in the address of an AWS container image. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TAG = re.compile(
    r"/(?P<repository>[^/:]+):(?P<pytorch>\d+\.\d+(?:\.\d+)?)(?:-transformers(?P<transformers>\d[\d.]*))?-"
    r"(?P<device>gpu|cpu|neuronx?)-py(?P<python>\d+)(?:-(?P<cuda>cu\d+))?"
)


@dataclass(frozen=True, kw_only=True)
class Image:
    """AWS deep-learning container."""

    repository: str
    """Name of the repository, such as `huggingface-pytorch-training`."""
    pytorch: tuple[int, ...]
    """Version of PyTorch: two or three numbers from the tag."""
    transformers: str | None
    """Version of Transformers, or None if the image does not contain it."""
    on_gpu: bool
    """True for an image with CUDA."""
    on_neuron: bool
    """True for an image with torch-neuronx, for Trainium."""
    cuda: str | None
    """Version of CUDA, such as `cu130`, or None if the tag does not state it."""

    @property
    def has_training_compiler(self) -> bool:
        """True if the image contains SageMaker Training Compiler."""
        return "-trcomp-" in self.repository

    @property
    def pytorch_text(self) -> str:
        """Version of PyTorch as text, such as `1.11.0`."""
        return ".".join(str(number) for number in self.pytorch)


def read_image(uri: str) -> Image | None:
    """Return the parts of the address of an AWS PyTorch container, or None for any other image."""
    match = _TAG.search(uri)
    if match is None:
        return None
    return Image(
        repository=match["repository"],
        pytorch=tuple(int(number) for number in match["pytorch"].split(".")),
        transformers=match["transformers"],
        on_gpu=match["device"] == "gpu",
        on_neuron=match["device"].startswith("neuron"),
        cuda=match["cuda"],
    )
