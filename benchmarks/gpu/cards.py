"""The GPUs of this machine, and what a path needs of them."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from importlib.util import find_spec

from benchmarks.gpu.paths import GpuPath

OPTIONAL_PACKAGES = ("flash_attn", "liger_kernel", "torchao")


@dataclass(frozen=True, kw_only=True)
class Cards:
    """Equal devices of one machine."""

    kind: str
    """Kind that jobs report: `cuda`; `cpu` in tests of the checks themselves."""
    name: str
    count: int
    capability: tuple[int, int]
    """CUDA's compute capability, such as (8, 0) for Ampere."""
    packages: Set[str]
    """Optional packages that are installed."""

    def reason_against(self, path: GpuPath) -> str:
        """Return why a path cannot run here; "" if it can."""
        if self.count < path.gpus:
            return f"it needs {path.gpus} GPUs, and this machine has {self.count}"
        if self.capability < path.capability:
            needed, own = (".".join(map(str, each)) for each in (path.capability, self.capability))
            return f"it needs compute capability {needed}, and {self.name} has {own}"
        if path.package and path.package not in self.packages:
            return f"it needs the package {path.package}, which is not installed"
        return ""


def cards_here() -> Cards | None:
    """Return the GPUs of this machine, or None without one that PyTorch can use."""
    import torch  # takes seconds

    if not torch.cuda.is_available():
        return None
    return Cards(
        kind="cuda",
        name=torch.cuda.get_device_name(0),
        count=torch.cuda.device_count(),
        capability=torch.cuda.get_device_capability(0),
        packages=frozenset(name for name in OPTIONAL_PACKAGES if find_spec(name)),
    )
