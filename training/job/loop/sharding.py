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

States = dict[str, dict[int, dict[str, Any]]]


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


def gathered_states(optimizer: torch.optim.Optimizer) -> States:
    """Return the optimizer's plain state dictionary in the CPU's memory, on rank 0. All processes must call this.

    Other ranks get None in place of each tensor. `get_optimizer_state_dict` would name the parameters, while the
    checkpoints of whole models number them.
    """
    states = optimizer.state_dict()
    gathered = {
        number: {name: _gathered(value) for name, value in values.items()} for number, values in states["state"].items()
    }
    return {**states, "state": gathered}


def load_states(optimizer: torch.optim.Optimizer, states: States) -> None:
    """Load a plain state dictionary into the optimizer of a sharded model. All processes must call this.

    Of tensors with dimensions, only the values of rank 0 are used; values of other ranks must have the same shapes.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    sharded = {
        number: {name: _sharded_like(parameters[number], value) for name, value in values.items()}
        for number, values in states["state"].items()
    }
    optimizer.load_state_dict({**states, "state": sharded})


def _first_names(model: nn.Module) -> dict[str, str]:
    """Return the name of each weight, with the first name of the same tensor."""
    first: dict[int, str] = {}
    return {name: first.setdefault(id(value), name) for name, value in model.state_dict(keep_vars=True).items()}


def _gathered(value: torch.Tensor) -> torch.Tensor | None:
    whole = value.full_tensor() if hasattr(value, "full_tensor") else value
    return whole.detach().cpu() if torch.distributed.get_rank() == 0 else None


def _sharded_like(parameter: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the parameter's shape as a DTensor with the same parts, and a number as it is."""
    if not value.dim() or not hasattr(parameter, "device_mesh"):
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value.to(parameter.to_local().device), parameter.device_mesh, parameter.placements)
