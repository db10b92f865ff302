"""What an image's address tells of what is in it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TAG = re.compile(
    r"/(?P<repository>[^/:]+):(?P<pytorch>\d+\.\d+(?:\.\d+)?)(?:-transformers(?P<transformers>\d[\d.]*))?-"
    r"(?P<device>gpu|cpu)-py(?P<python>\d+)"
)


@dataclass(frozen=True, kw_only=True)
class Image:
    """A deep-learning container of AWS."""

    repository: str
    """Such as `huggingface-pytorch-training`."""
    pytorch: tuple[int, ...]
    """Version of PyTorch in two or three numbers, as the tag gives it."""
    transformers: str | None
    """Version of Transformers, or None where the image has none."""
    on_gpu: bool

    @property
    def has_training_compiler(self) -> bool:
        """Whether SageMaker Training Compiler is part of it."""
        return "-trcomp-" in self.repository

    @property
    def pytorch_text(self) -> str:
        """Version of PyTorch as people write it."""
        return ".".join(str(number) for number in self.pytorch)


def read_image(uri: str) -> Image | None:
    """Return what the address of an AWS PyTorch container tells, or None for an image of someone else's."""
    found = _TAG.search(uri)
    if found is None:
        return None
    return Image(
        repository=found["repository"],
        pytorch=tuple(int(number) for number in found["pytorch"].split(".")),
        transformers=found["transformers"],
        on_gpu=found["device"] == "gpu",
    )
