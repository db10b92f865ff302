"""Settings and versions with which a job can shard its model."""

from typing import Tuple

import torch

from compilation.compilers import CUDA_GRAPH_MODES
from reporting.errors import Unsupported
from settings.arguments import Arguments

TORCH = (2, 6)
"""First version of torch with `torch.distributed.fsdp.fully_shard`."""
TRANSFORMERS = (4, 49)
"""Earliest version of transformers with which sharding is tested: that of AWS's first images with torch 2.6."""


def check_sharding(
    arguments: Arguments, device_kind: str, processes: int, torch_version: str, transformers_version: str
) -> None:
    """Raise `Unsupported` if this job cannot shard its model as requested. Versions are texts such as `2.6.0`."""
    if arguments.sharding == "none":
        return
    reason = ""
    if device_kind == "xla":
        reason = f"needs a GPU or a CPU, and compiler {arguments.compiler} runs on XLA devices: use compiler none"
    elif _minor(torch_version) < TORCH:
        reason = f"needs torch 2.6 or later, but torch {torch_version} is installed"
    elif _minor(transformers_version) < TRANSFORMERS:
        reason = f"needs transformers 4.49 or later, but transformers {transformers_version} is installed"
    elif not torch.distributed.is_available():
        reason = f"needs torch.distributed, which this build of torch {torch_version} does not have"
    elif arguments.compiler == "inductor" and arguments.compile_scope != "layers":
        reason = f"needs compile_scope layers, not {arguments.compile_scope}"
    elif arguments.compiler == "inductor" and arguments.compile_mode in CUDA_GRAPH_MODES:
        reason = (
            f"does not work with compile_mode {arguments.compile_mode}, which records CUDA graphs: "
            "use default or max-autotune-no-cudagraphs"
        )
    elif arguments.calibration_batch_sizes and processes > 1:
        reason = "does not work in a calibration of several processes, which takes steps in one process at a time"
    if reason:
        raise Unsupported(f"sharding {arguments.sharding} {reason}")


def _minor(version: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
