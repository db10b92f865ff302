"""Steps of a trial: forward and backward passes on a real batch, whose effects are undone."""

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import numpy as np
import torch

from checkpoints.random_states import preserve_random_states
from compilation import dropout
from data.batch_shapes import planned_batches
from data.padding import PACKED_TOKENS, Collator
from loop.samplers import train_sampler
from measuring.clocks import clock_for
from measuring.memory import reset_peak
from processes import ranks
from reporting.failure import failure_class
from settings.job_settings import Settings
from weights.pretrained import set_attention

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.bfloat16}
"""Number format of autocast. `fp8` differs from bf16 only in layers that are converted after the trial."""


@dataclass(frozen=True)
class Candidate:
    """Values of all fields that a trial may vary."""

    precision: str
    """fp32 | bf16 | fp16 | fp8."""
    attention: str
    """blockwise | eager | sdpa | flash_attention_2, or auto for a model whose implementation is not varied."""
    dropout: str
    """bulk | torch."""
    threads: Optional[int]
    """Threads of each operation. None means the number that is in use."""


class TrialSteps:
    """Takes timed steps on the batch in the middle of the work: half of the positions are in smaller batches."""

    def __init__(self, settings: Settings, model: Any) -> None:
        self._settings, self._model = settings, model.to(device_of(settings))
        self._clock = clock_for(settings.device_kind)
        self._numbers, self.tokens = _middle_batch(settings)
        self.max_rows = len(self._numbers)
        """Rows of the whole batch."""
        self._stacks = [(stack, dict(stack._modules)) for stack in layer_stacks(model)]
        self.layers = self.max_layers = sum(len(modules) for _, modules in self._stacks)
        """Layers in the next step, and layers of the model; 0 if it has no stack of equal layers."""
        self.rows = 0
        """Rows of the latest step."""
        self.counts_cpu_time = False
        """True to measure CPU time, which other processes hardly affect. It is right for a single thread and for
        threads that block, but spinning threads use CPU time, too."""
        self._batch: Dict[str, Any] = {}

    def use_one_layer(self) -> None:
        """Take the next steps with one layer of each stack of equal layers, which has nearly all that matters."""
        keep_one_layer(stack for stack, _ in self._stacks)
        self.layers = len(self._stacks)

    def use_all_layers(self) -> None:
        """Take the next steps with the whole model, as after `undone`."""
        for stack, modules in self._stacks:
            stack._modules.update(modules)
        self.layers = self.max_layers

    def use_rows(self, rows: int) -> None:
        """Take the next steps on this many rows of the batch."""
        batch, device = batch_of(self._settings, self._numbers[:rows]), device_of(self._settings)
        self._batch = {name: values.to(device) for name, values in batch.items()}
        self.rows, self.tokens = rows, int(self._batch["input_ids"].shape[1])

    def seconds(self, candidate: Candidate) -> float:
        """Take a step with a candidate and return its seconds. The weights do not change.

        With `counts_cpu_time`, these are CPU seconds, unless the candidate changes the number of threads.
        """
        self._apply(candidate)
        clock = time.process_time if self.counts_cpu_time and candidate.threads is None else self._clock.now
        try:
            return self._step_seconds(candidate, clock)
        finally:
            self._model.zero_grad(set_to_none=True)

    def _step_seconds(self, candidate: Candidate, clock: Callable[[], float]) -> float:
        started = clock()
        # As Trainer does: the loss is computed under autocast, the gradients are not.
        number_format = AUTOCAST.get(candidate.precision)
        with torch.autocast(self._settings.device_kind, number_format, enabled=number_format is not None):
            output = self._model(**self._batch)
        loss = output["loss"] if isinstance(output, dict) else output[0]
        loss.backward()
        return clock() - started

    def _apply(self, candidate: Candidate) -> None:
        if candidate.threads not in (None, torch.get_num_threads()):
            torch.set_num_threads(candidate.threads)
        if candidate.attention != "auto":
            set_attention(self._model, candidate.attention)
        dropout.install() if candidate.dropout == "bulk" else dropout.remove()


def load_kernels(settings: Settings, model: Any) -> None:
    """Take one step so that the GPU loads its kernels before the trial or the training. It is no part of the trial."""
    steps = TrialSteps(settings, model)
    with undone(model):
        steps.use_rows(steps.max_rows)
        try:
            steps.seconds(Candidate(settings.precision, settings.attention, settings.dropout, None))
        except Exception as error:
            if failure_class(error) != "OutOfMemory":
                raise
    # The peak that the job reports is that of its training.
    reset_peak(settings.device_kind)


def device_of(settings: Settings) -> torch.device:
    """Return the device of this process's training. A GPU becomes the current one."""
    if settings.device_kind != "cuda":
        return torch.device("cpu")
    torch.cuda.set_device(ranks.local_rank())
    return torch.device("cuda", ranks.local_rank())


def batch_of(settings: Settings, numbers: Iterable[int]) -> Dict[str, Any]:
    """Return these rows of the training data as a batch for a model that computes padding."""
    collator = Collator(settings.padding, settings.train.metadata, settings.task.targets)
    batch = collator([settings.train.rows[int(number)] for number in numbers])
    # The model of a trial computes padding, even if that of the training does not.
    batch.pop(PACKED_TOKENS, None)
    return batch


def keep_one_layer(stacks: Iterable[Any]) -> None:
    """Remove all layers but the first from each stack."""
    for stack in stacks:
        for name in list(stack._modules)[1:]:
            del stack._modules[name]


@contextmanager
def undone(model: Any) -> Iterator[None]:
    """Restore on exit everything that trial steps change: random states, buffers, gradients, threads and modes."""
    training, threads = model.training, torch.get_num_threads()
    attention = getattr(model.config, "_attn_implementation", None)
    use_cache = getattr(model.config, "use_cache", None)
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    layers = [(stack, dict(stack._modules)) for stack in layer_stacks(model)]
    with preserve_random_states():
        try:
            model.train()
            if use_cache is not None:
                model.config.use_cache = False
            yield
        finally:
            for stack, modules in layers:
                stack._modules.update(modules)
            model.zero_grad(set_to_none=True)
            model.train(training)
            if use_cache is not None:
                model.config.use_cache = use_cache
            if attention is not None:
                set_attention(model, attention)
            dropout.remove()
            torch.set_num_threads(threads)
            for buffer, before in buffers:
                buffer.copy_(before)


def layer_stacks(model: Any) -> List[Any]:
    """Return the model's outermost stacks of several layers of the same class."""
    stacks: List[Any] = []
    for child in model.children():
        is_stack = (
            isinstance(child, torch.nn.ModuleList) and len(child) > 1 and len({type(layer) for layer in child}) == 1
        )
        stacks += [child] if is_stack else layer_stacks(child)
    return stacks


def middle_shape(settings: Settings) -> Tuple[int, int]:
    """Return the rows and the tokens of each row, padding included, of the batch that a trial uses."""
    numbers, tokens = _middle_batch(settings)
    return len(numbers), tokens


def _middle_batch(settings: Settings) -> Tuple[np.ndarray, int]:
    """Return the row numbers and the length of the batch at half of the first epoch's positions.

    For this, the batches are sorted by their positions: rows times tokens, padding included.
    """
    order, lengths = train_sampler(settings).order(0), settings.train.rows.lengths
    size = settings.arguments.batch_size
    batches = planned_batches(order, lengths, size, settings.padding)
    positions = batches.positions
    by_size = np.argsort(positions, kind="stable")
    done = np.cumsum(positions[by_size])
    middle = int(by_size[np.searchsorted(done, done[-1] / 2)])
    return order[middle * size : (middle + 1) * size] % len(lengths), int(batches.lengths[middle])
