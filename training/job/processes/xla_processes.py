"""Processes of a job on XLA devices: their connection, and their ranks.

Two launchers start such processes. PyTorch/XLA's spawner, of SageMaker Training Compiler, imports torch_xla first and
passes the ranks through it. torchrun, on Trainium, passes them in environment variables, and the processes connect as
AWS documents: `init_process_group("xla")` after `import torch_xla.distributed.xla_backend` ("Developer Guide for
Training with PyTorch NeuronX"). transformers does the same when optimum-neuron is not installed, but AWS's image has
optimum-neuron, and transformers then leaves it to its NeuronTrainer.
"""

import os
import sys
from typing import Any, Mapping, Optional

TORCHRUN_VARIABLE = "TORCHELASTIC_RUN_ID"

_host_group: Optional[Any] = None


def under_spawner(environment: Mapping[str, str] = os.environ) -> bool:
    """Return True if torch_xla's launcher started this process: the launcher has then imported torch_xla."""
    return "torch_xla" in sys.modules and not environment.get(TORCHRUN_VARIABLE)


def connect(environment: Mapping[str, str] = os.environ) -> None:
    """Connect the processes that torchrun started, on their devices and on their CPUs. All must call this together."""
    global _host_group
    if not environment.get(TORCHRUN_VARIABLE) or int(environment.get("WORLD_SIZE", "1")) == 1:
        return
    import torch
    import torch_xla.distributed.xla_backend  # noqa: F401

    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("xla")
    _host_group = torch.distributed.new_group(backend="gloo")


def host_group() -> Optional[Any]:
    """Return the group in which the CPUs exchange values, or None if the default group does that.

    An exchange on XLA devices would be a program of its own, which takes seconds or minutes to compile.
    """
    return _host_group


def rank() -> int:
    """Return the rank of a process of the spawner, from 0."""
    return int(_call("get_ordinal", "global_ordinal"))


def count() -> int:
    """Return the number of processes of the spawner."""
    return int(_call("xrt_world_size", "world_size"))


def rendezvous(name: str) -> None:
    """Wait until every process of the spawner has called this."""
    import torch_xla.core.xla_model as xm

    xm.rendezvous(name)


def _call(function: str, later_name: str) -> Any:
    """Call a function that torch_xla 2.1 moved to another module and 2.7 removed from its first one."""
    import torch_xla.core.xla_model as xm

    if hasattr(xm, function):
        return getattr(xm, function)()
    import torch_xla.runtime

    return getattr(torch_xla.runtime, later_name)()
