"""Settings and versions with which a job can shard its model."""

import torch

from compilation.compilers import CUDA_GRAPH_MODES
from reporting.errors import Unsupported
from settings.arguments import Arguments

SHARDING_SINCE = (2, 6)
"""First version of torch with `torch.distributed.fsdp.fully_shard`."""


def check_sharding(arguments: Arguments, device_kind: str, processes: int, torch_version: str) -> None:
    """Raise `Unsupported` if this job cannot shard its model as requested."""
    if arguments.sharding == "none":
        return
    reason = ""
    if device_kind == "xla":
        reason = f"needs a GPU or a CPU, and compiler {arguments.compiler} runs on XLA devices: use compiler none"
    elif tuple(int(part) for part in torch_version.split(".")[:2]) < SHARDING_SINCE:
        reason = f"needs torch 2.6 or later, but torch {torch_version} is installed"
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
