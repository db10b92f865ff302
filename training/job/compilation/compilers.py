"""The compilers that a training can run under, each with the same few calls."""

import os
import shutil
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List

import torch

from reporting.errors import Unsupported


class NoCompiler:
    """PyTorch as it is. Also stands for SageMaker Training Compiler, which its image applies from outside."""

    device_kind = ""
    """Kind of device that the compiler brings with it; empty leaves the machine's."""
    compiles_here = False
    """Whether the job has to warm the compiler up before the first step."""

    def check(self) -> None:
        """Raise `Unsupported` when this machine or version cannot compile."""

    def prepare(self, model: Any, dynamic_lengths: bool) -> str:
        """Make the model compile when it next runs; return a sentence that says how, or an empty one."""
        return ""

    def warmed_up(self) -> None:
        """Say that all planned shapes are compiled: what is compiled from now on is a recompile."""

    @contextmanager
    def eager(self) -> Iterator[None]:
        """Run without the compiler inside."""
        yield

    def metrics(self) -> Dict[str, float]:
        """Return `compile/*`."""
        return {}

    def cache_state(self) -> str:
        """Return off, cold, warm or partial: whether compiled programs came from a cache on disk."""
        return "off"


class TrainingCompiler(NoCompiler):
    """SageMaker Training Compiler: its image swaps the device for XLA and compiles what it meets."""

    device_kind = "xla"


class Inductor(NoCompiler):
    """torch.compile. Repeated layers are compiled once for all of them, everything else stays as it is.

    Evaluation runs eagerly: its shapes are others, and compiling them takes longer than they are worth.
    """

    compiles_here = True

    def __init__(self) -> None:
        self._modules: List[Any] = []
        self._graphs_when_warm = 0

    def check(self) -> None:
        if not hasattr(torch.nn.Module, "compile"):
            raise Unsupported(f"compiler inductor needs torch 2.2 or later; this is {torch.__version__}")
        candidates = [os.environ.get("CXX", ""), "g++", "clang++", "c++"]
        if not any(shutil.which(candidate) for candidate in candidates if candidate):
            raise Unsupported(
                "compiler inductor needs a C++ compiler and found none (looked for $CXX, g++ and clang++): "
                "install g++, or take compiler none"
            )

    def prepare(self, model: Any, dynamic_lengths: bool) -> str:
        self._modules = repeated_layers(model) or [model]
        _allow_recompiles()
        for module in self._modules:
            module.compile(dynamic=dynamic_lengths)
        what = f"{len(self._modules)} x {type(self._modules[0]).__name__}"
        return f"inductor compiles {what}, {'any length at once' if dynamic_lengths else 'each shape by itself'}"

    def warmed_up(self) -> None:
        self._graphs_when_warm = _graphs()

    @contextmanager
    def eager(self) -> Iterator[None]:
        compiled = [module._compiled_call_impl for module in self._modules]
        _set_calls(self._modules, [None] * len(compiled))
        try:
            yield
        finally:
            _set_calls(self._modules, compiled)

    def metrics(self) -> Dict[str, float]:
        return {
            "compile/graphs": _graphs(),
            "compile/recompiles": _graphs() - self._graphs_when_warm,
            "compile/graph_breaks": sum(_counters()["graph_break"].values()),
        }

    def cache_state(self) -> str:
        hits, misses = (_counters()["inductor"][f"fxgraph_cache_{what}"] for what in ("hit", "miss"))
        if not hits:
            return "cold"
        return "partial" if misses else "warm"


COMPILERS: Dict[str, Callable[[], NoCompiler]] = {
    "none": NoCompiler,
    "inductor": Inductor,
    "trcomp": TrainingCompiler,
    "trcomp-off": NoCompiler,
}


def repeated_layers(model: Any) -> List[Any]:
    """Return the layers of the model's outermost stacks of like layers, or none.

    From torch 2.5 on, modules of one class share one compiled program (their parameters are its inputs), so that a
    stack of 12 layers compiles like one layer. Before, each would be compiled by itself: better the model as a whole.
    """
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 5):
        return []
    layers: List[Any] = []
    for child in model.children():
        stacked = isinstance(child, torch.nn.ModuleList) and len(child) > 1
        if stacked and len({type(layer) for layer in child}) == 1:
            layers += list(child)
        else:
            layers += repeated_layers(child)
    return layers


def _allow_recompiles() -> None:
    """Lift the limit above which dynamo gives up and runs eagerly: the shapes are planned, and counted."""
    import torch._dynamo as dynamo

    name = "recompile_limit" if hasattr(dynamo.config, "recompile_limit") else "cache_size_limit"
    setattr(dynamo.config, name, 256)


def _set_calls(modules: List[Any], calls: List[Any]) -> None:
    for module, call in zip(modules, calls):
        module._compiled_call_impl = call


def _counters() -> Any:
    from torch._dynamo.utils import counters

    return counters


def _graphs() -> int:
    return int(_counters()["stats"]["unique_graphs"])
