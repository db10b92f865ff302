"""Compilers for a training run, behind one interface."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from training.job.processes import ranks


class NoCompiler:
    """PyTorch without a compiler, and the base class of the compilers."""

    compiles_here = False
    """True if torch.compile compiles the model here: all shapes before the first step."""

    def prepare(self, model: nn.Module, dynamic_lengths: bool) -> str:
        """Set up the model to compile at its next run. Return a description for the log, which may be empty."""
        return ""

    @property
    def marks_steps(self) -> bool:
        """True if `begin_step` does anything."""
        return False

    def begin_step(self) -> None:
        """Prepare for the first forward pass of an optimizer step, when no parameter has a gradient."""

    def mark_warm(self) -> None:
        """Record that all planned shapes are compiled. Any later compilation is a recompile."""

    @contextmanager
    def eager(self) -> Iterator[None]:
        yield

    def metrics(self) -> dict[str, float]:
        return {}

    def cache_state(self) -> str:
        """Return `off` without a cache, else `cold`, `partial` or `warm`: no, some or all programs were on disk."""
        return "off"


class Inductor(NoCompiler):
    """torch.compile. With the scope `layers`, repeated layers share one compiled program, and the rest of the model
    stays uncompiled. With `model`, the whole model is compiled.

    Evaluation runs eagerly. Its shapes differ, and compiling them takes longer than it saves.
    """

    compiles_here = True

    def __init__(self, scope: str, mode: str, records_cuda_graphs: bool) -> None:
        self.scope, self.mode, self.records_cuda_graphs = scope, mode, records_cuda_graphs
        self._modules: list[nn.Module] = []
        self._graphs_when_warm = 0
        # A program that repeats within one job is found in the cache, too: an empty folder says that all were new.
        folder = os.environ.get(ranks.CACHE_VARIABLE, "")
        self._had_programs = not folder or any(Path(folder).glob("fxgraph/*"))

    def prepare(self, model: nn.Module, dynamic_lengths: bool) -> str:
        self._modules = (repeated_layers(model) if self.scope == "layers" else []) or [model]
        import torch._dynamo as dynamo

        # Above this limit, dynamo stops compiling and runs eagerly: each planned shape is a recompilation.
        name = "recompile_limit" if hasattr(dynamo.config, "recompile_limit") else "cache_size_limit"
        setattr(dynamo.config, name, 256)
        for module in self._modules:
            module.compile(dynamic=dynamic_lengths, mode=None if self.mode == "default" else self.mode)
        modules = f"{len(self._modules)} x {type(self._modules[0]).__name__}"
        programs = "one program for all lengths" if dynamic_lengths else "one program per shape"
        mode = "" if self.mode == "default" else f", mode {self.mode}"
        return f"inductor compiles {modules}, {programs}{mode}"

    @property
    def marks_steps(self) -> bool:
        return self.records_cuda_graphs

    def begin_step(self) -> None:
        # CUDA graphs reuse the memory of the last step's outputs (torch.compiler.cudagraph_mark_step_begin).
        torch.compiler.cudagraph_mark_step_begin()

    def mark_warm(self) -> None:
        self._graphs_when_warm = _graphs()

    @contextmanager
    def eager(self) -> Iterator[None]:
        compiled = [module._compiled_call_impl for module in self._modules]
        for module in self._modules:
            module._compiled_call_impl = None
        try:
            yield
        finally:
            for module, call in zip(self._modules, compiled):
                module._compiled_call_impl = call

    def metrics(self) -> dict[str, float]:
        # For how many products this process has timed several kernels (torch/_inductor/select_algorithm.py).
        autotuned = _counters()["inductor"]["select_algorithm_autotune"]
        return {
            "compile/graphs": _graphs(),
            "compile/recompiles": _graphs() - self._graphs_when_warm,
            "compile/graph_breaks": sum(_counters()["graph_break"].values()),
            **({"compile/autotuned": autotuned} if autotuned else {}),
        }

    def cache_state(self) -> str:
        hits, misses = (_counters()["inductor"][f"fxgraph_cache_{result}"] for result in ("hit", "miss"))
        if not misses and hits:
            return "warm"
        return "partial" if hits and self._had_programs else "cold"


def repeated_layers(model: nn.Module) -> list[nn.Module]:
    """Return the layers of the model's outermost stacks of identical layers; empty if the model has no such stack.

    Modules of one class share one compiled program, with their parameters as inputs: a stack of 12 layers compiles as
    fast as one layer.
    """
    layers: list[nn.Module] = []
    for child in model.children():
        stacked = isinstance(child, nn.ModuleList) and len(child) > 1
        if stacked and len({type(layer) for layer in child}) == 1:
            layers += list(child)
        else:
            layers += repeated_layers(child)
    return layers


def _counters() -> Any:
    from torch._dynamo.utils import counters

    return counters


def _graphs() -> int:
    return int(_counters()["stats"]["unique_graphs"])
