"""Ranks of processes that PyTorch/XLA's spawner started, as SageMaker Training Compiler does.

The spawner imports torch_xla first, and passes the ranks through it.
"""

import os
import sys
from typing import Mapping

TORCHRUN_VARIABLE = "TORCHELASTIC_RUN_ID"


def under_spawner(environment: Mapping[str, str] = os.environ) -> bool:
    """Return True if torch_xla's launcher started this process: the launcher has then imported torch_xla."""
    return "torch_xla" in sys.modules and not environment.get(TORCHRUN_VARIABLE)


def rank() -> int:
    """Return the rank of a process of the spawner, from 0."""
    import torch_xla.core.xla_model as xm

    return int(xm.get_ordinal())


def count() -> int:
    """Return the number of processes of the spawner."""
    import torch_xla.core.xla_model as xm

    return int(xm.xrt_world_size())


def rendezvous(name: str) -> None:
    """Wait until every process of the spawner has called this."""
    import torch_xla.core.xla_model as xm

    xm.rendezvous(name)
