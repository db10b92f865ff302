"""Meter of a script's training, in each of its processes. Standard library only; Python 3.8 and later.

`sitecustomize.py`, whose folder the entry point puts on PYTHONPATH, loads this file by its path. The meter waits until
the script imports torch, and then counts in a hook after `Optimizer.step` (`register_optimizer_step_post_hook`, torch
2.0). It writes into a memory-mapped file of FIELDS for each process, so that a killed process leaves what it had
counted. It never raises: an error of its own is counted, and its text kept.

A step is one round of all optimizers. It begins when an optimizer that has stepped in this round steps again after a
forward pass of its model with gradients. So the two optimizers of a GAN, a `step` that calls its parent's, and one that
is called for each group of parameters count once, and accumulated batches do not count as steps.

Samples and tokens come from the outermost call of the model that owns the optimizer's parameters. On a GPU, nothing is
synchronised between the end of the warm-up and the exit.
"""

import atexit
import functools
import gc
import importlib
import importlib.abc
import importlib.util
import inspect
import json
import mmap
import os
import sys
import time
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

_COUNTS = ("batches", "samples", "tokens", "evaluation_seconds")
FIELDS = (
    *_COUNTS,
    *("done_" + name for name in _COUNTS),
    *("warm_" + name for name in _COUNTS),
    *("steps", "warm_steps", "trainings", "skipped_steps"),
    *("first_step_time", "warm_time", "last_step_time", "gpu_seconds"),
    *("gpu_peak_bytes", "parameters", "trainable_parameters", "rank", "processes", "errors"),
)
"""Numbers of one process, all floats. Counts are those so far, at the last step (`done_`) and at the end of the warm-up
(`warm_`). Times are seconds since the epoch. `gpu_seconds` lie between the end of the warm-up and the last step by the
GPU's clock; they are 0 until the process ends."""
WARM_UP_STEPS = 10
"""Steps before the steady ones: they hold the start of the data loaders, compilation and the choice of kernels."""
_AT = {name: number for number, name in enumerate(FIELDS)}
_NOW, _DONE, _WARM = (slice(at, at + len(_COUNTS)) for at in range(0, 3 * len(_COUNTS), len(_COUNTS)))
_BYTES = 8 * len(FIELDS)


def read(content: bytes) -> Dict[str, float]:
    """Return the fields in the content of a process's file."""
    return dict(zip(FIELDS, memoryview(content[:_BYTES]).cast("d")))


class Meter:
    def __init__(self, folder: str) -> None:
        self._folder, self._path = folder, ""
        self._torch: Any = None
        self._view: Any = None
        """The numbers in the mapped file; None until an optimizer exists."""
        self._reasons: Dict[str, str] = {}
        """Reasons by what is not countable."""
        self._roots: Any = weakref.WeakValueDictionary()
        """Models that may be called to train, by id. The script may still free them."""
        self._called: Optional[int] = None
        """Id of the model that was called first with gradients, in this training."""
        self._wrapped: Set[type] = set()
        self._is_inside = False
        self._is_compiling: Callable[[], bool] = lambda: False
        self._before_call = self.safely(self._count_call)
        self._forwards = 0
        """Forward passes with gradients so far."""
        self._round: Dict[int, int] = {}
        """Optimizers that have stepped in this round, by id -> forward passes before their last step."""
        self._step_calls = 0
        """Calls of `step` of any optimizer."""
        self._begins_training = False
        self._evaluation_start = 0.0
        self._gpu_tokens: Any = None
        """Real tokens so far, on the GPU, where reading them would wait for it."""
        self._gpu_events: Any = None
        self._peak_due = 0.0

    # What is installed.

    def optim_imported(self, module: Any) -> None:
        """Install the hooks, once `torch.optim.optimizer` is imported."""
        self._torch = torch = sys.modules["torch"]
        register = getattr(module, "register_optimizer_step_post_hook", None)
        if register is None:
            self._open()
            self._reason("steps", "torch %s has no hook after a step; 2.0 and later have" % torch.__version__)
            return
        self._is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", self._is_compiling)
        is_compiling, after_step = self._is_compiling, self.safely(self._after_step)

        def hook(*arguments: Any) -> None:
            if not is_compiling():
                after_step(*arguments)

        register(hook)
        own, initialised = module.Optimizer, self.safely(self._on_optimizer)
        original = own.__init__

        @functools.wraps(original)
        def initialise(self: Any, *arguments: Any, **named: Any) -> None:
            original(self, *arguments, **named)
            initialised(self)

        own.__init__ = initialise

    def scaler_imported(self, module: Any) -> None:
        """Count the steps that a GradScaler skips because a gradient is not finite."""
        original, meter = module.GradScaler.step, self

        @functools.wraps(original)
        def step(self: Any, optimizer: Any, *arguments: Any, **named: Any) -> Any:
            calls = meter._step_calls
            value = original(self, optimizer, *arguments, **named)
            if meter._view is not None and meter._step_calls == calls:
                meter._view[_AT["skipped_steps"]] += 1
            return value

        module.GradScaler.step = step

    def dynamo_imported(self, module: Any) -> None:
        """Count calls of compiled models, in which a call of the model itself is part of the compiled code."""
        self._wrap(module.OptimizedModule)

    def safely(self, function: Callable[..., None]) -> Callable[..., None]:
        """Return the function without its exceptions: a script must never fail because of its meter."""

        def safe(*arguments: Any) -> None:
            try:
                function(*arguments)
            except Exception as error:
                self._error(error)

        return safe

    def _error(self, error: BaseException) -> None:
        if self._view is not None:
            self._view[_AT["errors"]] += 1
        try:
            self._reason("meter", "%s: %s" % (type(error).__name__, str(error)[:200]))
        except OSError:
            return

    def _open(self) -> None:
        """Map the file, when the process turns out to train."""
        if self._view is not None:
            return
        self._path = os.path.join(self._folder, "%d-%d.meter" % (os.getpid(), time.time_ns()))
        with open(self._path, "w+b") as file:
            file.truncate(_BYTES)
            self._view = memoryview(mmap.mmap(file.fileno(), _BYTES)).cast("d")
        self._view[_AT["rank"]] = float(os.environ.get("RANK") or 0)
        self._view[_AT["processes"]] = float(os.environ.get("WORLD_SIZE") or 1)
        atexit.register(self.safely(self._at_exit))
        os.register_at_fork(after_in_child=self._close)

    def _close(self) -> None:
        """Leave the file to the parent of this process. If this process trains as well, it maps its own."""
        self._view, self._round, self._reasons, self._gpu_events = None, {}, {}, None

    def _reason(self, what: str, why: str) -> None:
        if self._reasons.setdefault(what, why) == why:
            with open(self._path + ".json", "w") as file:
                json.dump(self._reasons, file)

    # Which model trains.

    def _on_optimizer(self, optimizer: Any) -> None:
        """Find the models of a new optimizer: those that own its parameters and are part of no other model."""
        self._open()
        trained = {id(each) for group in optimizer.param_groups for each in group["params"]}
        module_type = self._torch.nn.Module
        modules = [each for each in gc.get_objects() if issubclass(type(each), module_type)]
        modules = [each for each in modules if "_modules" in each.__dict__]  # its __init__ has run
        parents: Dict[int, List[Any]] = {}
        for module in modules:
            for child in module._modules.values():
                parents.setdefault(id(child), []).append(module)
        pending = [each for each in modules if any(id(own) in trained for own in each._parameters.values())]
        tops, seen = {}, set()
        while pending:
            module = pending.pop()
            if id(module) not in seen:
                seen.add(id(module))
                pending += parents.get(id(module), [])
                if id(module) not in parents:
                    tops[id(module)] = module
        if not tops.keys() & self._roots.keys():
            if self._view[_AT["steps"]]:
                self._begins_training, self._called, self._roots = True, None, weakref.WeakValueDictionary()
            own = [each for top in tops.values() for each in top.parameters()]
            self._view[_AT["parameters"]] = sum(each.numel() for each in own)
            self._view[_AT["trainable_parameters"]] = sum(each.numel() for each in own if each.requires_grad)
        for top in tops.values():
            self._add_root(top)
            if hasattr(top, "training_step"):  # Lightning calls this method, and the method calls what the module holds
                for child in top.children():
                    self._add_root(child)
        if not tops:
            self._reason("samples", "no torch.nn.Module owns the parameters of the optimizer")

    def _add_root(self, module: Any) -> None:
        self._roots[id(module)] = module
        self._wrap(type(module))
        if any(getattr(each, "batch_first", True) is False for each in module.modules()):
            self._reason("samples", "the model takes the sequence as its first dimension (batch_first is false)")

    def _wrap(self, kind: type) -> None:
        """Count the calls of those modules of a class that may be called to train."""
        if kind in self._wrapped:
            return
        original, meter = kind.__call__, self
        self._wrapped.add(kind)
        is_compiling = self._is_compiling

        @functools.wraps(original)
        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            if is_compiling() or meter._is_inside or not meter._is_root(self):
                return original(self, *arguments, **named)
            meter._before_call(self, arguments, named)
            meter._is_inside = True
            try:
                return original(self, *arguments, **named)
            finally:
                meter._is_inside = False

        kind.__call__ = call  # type: ignore[method-assign]

    def _is_root(self, module: Any) -> bool:
        return id(module) in self._roots or id(module.__dict__.get("_modules", {}).get("_orig_mod")) in self._roots

    # What is counted.

    def _count_call(self, module: Any, arguments: Tuple[Any, ...], named: Dict[str, Any]) -> None:
        """Count a batch, before the model is called with it."""
        self._open()
        view = self._view
        if not self._torch.is_grad_enabled():
            if not module.training and not self._evaluation_start:
                has_trained = self._forwards > max(self._round.values(), default=0)
                self._evaluation_start = time.time() if has_trained else view[_AT["last_step_time"]]
            return
        if self._evaluation_start:
            view[_AT["evaluation_seconds"]] += time.time() - self._evaluation_start
            self._evaluation_start = 0.0
        if self._called is None:
            self._called = id(module)
        elif self._called != id(module):
            self._reason("samples", "several models are trained together")
        self._forwards += 1
        view[_AT["batches"]] += 1
        tensors = list(_tensors((arguments, named)))
        if not tensors:
            self._reason("samples", "the model is called without a tensor")
            return
        view[_AT["samples"]] += len(tensors[0][1])
        masks = [each for name, each in tensors if name.endswith("attention_mask") and each.dim() == 2]
        ids = [each for name, each in tensors if name.endswith("input_ids")]
        ids = ids or [each for _, each in tensors[:1] if each.dim() == 2 and not each.is_floating_point()]
        if not masks:
            view[_AT["tokens"]] += sum(each.numel() for each in ids)
        elif masks[0].is_cuda:
            total = sum(each.sum() for each in masks)
            self._gpu_tokens = total if self._gpu_tokens is None else self._gpu_tokens + total
        else:
            view[_AT["tokens"]] += sum(int(each.sum()) for each in masks)

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        self._open()
        view, now = self._view, time.time()
        self._step_calls += 1
        earlier = self._round.get(id(optimizer))
        is_new = earlier is not None and (self._forwards > earlier or not self._forwards)
        if is_new or not self._round or self._begins_training:
            self._round = {}
            view[_AT["steps"]] += 1
            if self._begins_training or not view[_AT["trainings"]]:
                view[_AT["trainings"]] += 1
                self._begins_training = False
        self._round[id(optimizer)] = self._forwards
        if not view[_AT["first_step_time"]]:
            view[_AT["first_step_time"]] = now
            if not self._forwards:
                self._reason("samples", "no call of a model with gradients was seen before the first step")
        cuda = self._torch.cuda
        uses_gpu = cuda.is_available() and cuda.is_initialized()
        if uses_gpu and now > self._peak_due:
            view[_AT["gpu_peak_bytes"]], self._peak_due = cuda.max_memory_allocated(), now + 1.0
        if view[_AT["steps"]] == WARM_UP_STEPS:
            if uses_gpu:
                cuda.synchronize()
                now = time.time()
                self._gpu_events = [cuda.Event(enable_timing=True) for _ in range(2)]
                self._gpu_events[0].record()
                self._read_gpu_tokens()
            view[_WARM] = view[_NOW]
            view[_AT["warm_steps"]], view[_AT["warm_time"]] = WARM_UP_STEPS, now
        elif self._gpu_events:
            self._gpu_events[1].record()
        view[_DONE] = view[_NOW]
        view[_AT["last_step_time"]] = now

    def _read_gpu_tokens(self) -> None:
        if self._gpu_tokens is not None:
            self._view[_AT["tokens"]] += int(self._gpu_tokens)
            self._gpu_tokens = None

    def _at_exit(self) -> None:
        if self._view is None:
            return
        if self._gpu_tokens is not None:
            self._read_gpu_tokens()
            self._view[_AT["done_tokens"]] = self._view[_AT["tokens"]]
        if self._gpu_events and self._view[_AT["steps"]] > WARM_UP_STEPS:
            self._gpu_events[1].synchronize()
            self._view[_AT["gpu_seconds"]] = self._gpu_events[0].elapsed_time(self._gpu_events[1]) / 1000
            self._view[_AT["gpu_peak_bytes"]] = self._torch.cuda.max_memory_allocated()


def _tensors(value: Any, name: str = "", depth: int = 0) -> Iterator[Tuple[str, Any]]:
    """Yield the tensors with a first dimension in a model's arguments, each with its name; "" without a name."""
    if hasattr(value, "dim") and hasattr(value, "numel"):
        if value.dim():
            yield name, value
    elif hasattr(value, "items") and depth < 4:
        for key, each in value.items():
            yield from _tensors(each, str(key), depth + 1)
    elif isinstance(value, (list, tuple)) and depth < 4:
        for each in value:
            yield from _tensors(each, name, depth + 1)


def autologging(flavour: str, owner: str) -> Callable[[Any], None]:
    """Return a function that lets MLflow log what a library logs, without models, from its first `owner` object on.

    MLflow imports the library, also under its other name (`pytorch_lightning` and `lightning.pytorch`), so it must not
    be imported before the library is complete.
    """
    pending = [flavour]

    def imported(module: Any) -> None:
        kind = getattr(module, owner)
        original = kind.__init__

        @functools.wraps(original)
        def initialise(self: Any, *arguments: Any, **named: Any) -> None:
            if pending and importlib.util.find_spec("mlflow") is not None:
                begin(pending.pop())
            original(self, *arguments, **named)

        kind.__init__ = initialise

    def begin(name: str) -> None:
        try:
            autolog = importlib.import_module("mlflow." + name).autolog
            known = inspect.signature(autolog).parameters
            autolog(**{each: False for each in ("log_models", "checkpoint") if each in known})
        except Exception as error:  # the script trains without it
            sys.stderr.write("trainfare: MLflow's autologging is not used: %r\n" % error)

    return imported


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function once after the import of a module."""

    def __init__(self, functions: Dict[str, Callable[[Any], None]]) -> None:
        self._functions = functions

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname not in self._functions:
            return None
        function = self._functions.pop(fullname)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            function(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install(folder: str) -> None:
    """Count the training of this process, if it turns out to train, in a file of the folder."""
    meter, lightning = Meter(folder), autologging("pytorch", "Trainer")
    functions = {
        "torch.optim.optimizer": meter.optim_imported,
        "torch.amp.grad_scaler": meter.scaler_imported,
        "torch._dynamo.eval_frame": meter.dynamo_imported,
        "pytorch_lightning": lightning,
        "lightning.pytorch": lightning,
        "keras": autologging("keras", "Model"),
    }
    sys.meta_path.insert(0, _AfterImport({name: meter.safely(each) for name, each in functions.items()}))
