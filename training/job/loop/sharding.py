"""Shard a model's parameters, gradients and optimizer states over all processes: FSDP2.

`fully_shard` (torch 2.6, https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html) replaces every
parameter by a DTensor of which each process holds a part. A layer's parameters are gathered before it runs and released
after it, and its gradients are averaged into parts as soon as they are complete. Matrix products use the same autocast
as without sharding and gradients are averaged in single precision, so the losses differ only by rounding. A process
averages gradients after every batch of a step: whole gradients would need the memory that sharding saves.

`fully_shard` is called here and not through accelerate's plugin, with which Trainer needs several processes and writes
checkpoints in a format of its own. Saved models and checkpoints are plain: rank 0 gathers one tensor after the other
in its CPU's memory.
"""

from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from safetensors.torch import load_file
from torch import nn

from training.job.compilation.compilers import repeated_layers


def shard(model: nn.Module, accelerator: Accelerator) -> None:
    """Shard a model in place, on the accelerator's device. All processes must call this with equal weights.

    Call it before the optimizer is created, because it replaces the parameters. accelerate adds autocast, but no
    DistributedDataParallel. The peak of a GPU's memory stays low if the weights are still in the CPU's memory.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    device, prepare = accelerator.device, accelerator.prepare_model
    if not torch.distributed.is_initialized():  # Trainer creates no process group for one process
        backend = "nccl" if device.type == "cuda" else "gloo"
        torch.distributed.init_process_group(backend, store=torch.distributed.HashStore(), rank=0, world_size=1)
    prepare(model, device_placement=False, evaluation_mode=True)
    mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
    for layer in repeated_layers(model):
        fully_shard(layer, mesh=mesh)
    name = type(model).__name__
    fully_shard(model, mesh=mesh)
    # The saved configuration names the model's class, whose name now starts with FSDP.
    type(model).__name__ = name

    def prepare_other(given: nn.Module, *args: object, **kwargs: object) -> nn.Module:
        """Leave this model as it is. It would be wrapped in DistributedDataParallel when Trainer starts."""
        return given if given is model else prepare(given, *args, **kwargs)

    accelerator.prepare_model = prepare_other


def gathered_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the model's plain state dictionary in the CPU's memory, on rank 0. Others return an empty one.

    All processes must call this. Tensors that are shared in the model stay shared.
    """
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    return {name: weights[first] for name, first in _first_names(model).items()} if weights else {}


def load_weights(model: nn.Module, folder: Path | None) -> None:
    """Load a saved model into a sharded one. All processes must call this; only rank 0 needs the folder."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

    weights = {}
    if folder and torch.distributed.get_rank() == 0:
        # Files contain a shared tensor only once, under any of its names.
        first_names = _first_names(model)
        read = (load_file(file) for file in sorted(folder.glob("*.safetensors")))
        saved = {first_names.get(name, name): value for part in read for name, value in part.items()}
        weights = {name: saved[first] for name, first in first_names.items()}
    # After an evaluation, parameters outside of the layers are still gathered.
    model.reshard()
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))


def gathered_states(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return the optimizer's states by the names of the weights, in the CPU's memory, on rank 0. Others get none.

    All processes must call this.
    """
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    states: dict[str, Any] = get_optimizer_state_dict(model, optimizer, options=options)
    return states


def load_states(model: nn.Module, optimizer: torch.optim.Optimizer, states: dict[str, Any]) -> None:
    """Load such states into the optimizer of a sharded model. All processes must call this; rank 0's count."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_optimizer_state_dict

    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_optimizer_state_dict(model, optimizer, states, options=options)


def _first_names(model: nn.Module) -> dict[str, str]:
    """Return the name of each weight, with the first name of the same tensor."""
    first: dict[int, str] = {}
    return {name: first.setdefault(id(value), name) for name, value in model.state_dict(keep_vars=True).items()}
