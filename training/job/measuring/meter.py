"""Time the phases of a training and its steady throughput, and name the metrics of its result.

Steady throughput is the work between the end of the warm-up steps and the end of the last step, divided by the wall
time between these two instants. The device is idle at both. The time includes data loading and excludes evaluations and
checkpoints. It needs at least two steps after the warm-up.

The clocks account for unfinished work on the device. A GPU works asynchronously. `now` waits until it has finished.
This costs time, so `now` is called only a few times in a training. `mark` does not wait and is called at every step: it
queues an event on the device, which is read later.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from transformers import PreTrainedModel

from training.job.data.padding import NO_WORK, Work

MIN_STEADY_STEPS = 2
FLOPS_PER_PARAMETER_AND_TOKEN = 6
"""2 forward and 4 backward, without attention: Kaplan et al. 2020, https://arxiv.org/abs/2001.08361, section 2.1."""


class Clock(Protocol):
    """Clock of a device. A mark is a point in the device's work."""

    def now(self) -> float:
        """Wait until the device is idle, and return seconds."""

    def mark(self) -> Any:
        """Return a mark at the end of the work that was given to the device. Does not wait."""

    def seconds_between(self, start: Any, end: Any) -> float:
        """Return the seconds between two marks. Waits until the device has reached the second."""


@dataclass(frozen=True)
class Instant:
    """State of a training at a moment when the device was idle."""

    seconds: float
    paused_seconds: float
    """Seconds of evaluations and checkpoints since the first step."""
    work: Work
    """Work of this process since the start of the job."""


@dataclass(frozen=True)
class Steady:
    """The part of a training after its warm-up."""

    seconds: float
    """Wall time without evaluations and checkpoints."""
    work: Work
    """Work of this process during `seconds`."""
    steps: int
    step_seconds: tuple[float, float, float]
    """Quartiles of the step time: p25, p50, p75."""


class Meter:
    """Stopwatch for the phases and steps of a training.

    Calls `on_phase` with the name and seconds of each phase that ends.
    """

    def __init__(
        self, clock: Clock, warmup_steps: int, on_phase: Callable[[str, float], None] = lambda *_: None
    ) -> None:
        self.phase_seconds: dict[str, float] = {}
        self.work = NO_WORK
        self._clock, self._warmup_steps, self._on_phase = clock, warmup_steps, on_phase
        self._paused_seconds = 0.0
        self._first_step_start: Instant | None = None
        self._warmup_end: Instant | None = None
        self._last_step_end: Instant | None = None
        self._step_start: Any = None
        self._spans: list[tuple[Any, Any]] = []
        self._step_seconds: list[float] = []

    def add_phase(self, name: str, seconds: float) -> None:
        """Add seconds to a phase and pass them to `on_phase`."""
        self.phase_seconds[name] = self.phase_seconds.get(name, 0.0) + seconds
        self._on_phase(name, seconds)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a phase. Step times and throughput exclude it."""
        start = self._clock.now()
        yield
        seconds = self._clock.now() - start
        self._paused_seconds += seconds
        self._step_start = self._clock.mark()
        self.add_phase(name, seconds)

    def begin_steps(self) -> None:
        self._first_step_start = self._instant()
        self._step_start = self._clock.mark()

    def add_work(self, work: Work) -> None:
        self.work = Work(*map(sum, zip(self.work, work)))

    def end_step(self) -> None:
        end = self._clock.mark()
        self._spans.append((self._step_start, end))
        self._step_start = end
        if len(self._spans) + len(self._step_seconds) == self._warmup_steps:
            self._warmup_end = self._instant()

    def end_steps(self) -> None:
        """Mark the end of the last step and add the phases `warmup` and `train_steady`. Only the first call counts."""
        if self._last_step_end is not None or self._first_step_start is None:
            return
        self._last_step_end = self._instant()
        warm = self._warmup_end or self._last_step_end
        self.add_phase("warmup", _unpaused_seconds(self._first_step_start, warm))
        if warm is not self._last_step_end:
            self.add_phase("train_steady", _unpaused_seconds(warm, self._last_step_end))

    def step_seconds(self) -> list[float]:
        """Return the seconds of every step so far, in order. Waits for the device to finish the last step."""
        self._step_seconds += [self._clock.seconds_between(*span) for span in self._spans]
        self._spans = []
        return self._step_seconds

    def steady(self) -> Steady | None:
        """Return the steady part of the training, or None if it has too few steps."""
        seconds = self.step_seconds()[self._warmup_steps :]
        if self._warmup_end is None or self._last_step_end is None or len(seconds) < MIN_STEADY_STEPS:
            return None
        work = Work(*(end - start for end, start in zip(self._last_step_end.work, self._warmup_end.work)))
        p25, p50, p75 = (float(np.percentile(seconds, at)) for at in (25, 50, 75))
        return Steady(_unpaused_seconds(self._warmup_end, self._last_step_end), work, len(seconds), (p25, p50, p75))

    def _instant(self) -> Instant:
        return Instant(self._clock.now(), self._paused_seconds, self.work)


def _unpaused_seconds(start: Instant, end: Instant) -> float:
    return end.seconds - start.seconds - (end.paused_seconds - start.paused_seconds)


class CpuClock:
    """Clock of a CPU, whose work has finished when a call returns."""

    def now(self) -> float:
        return time.perf_counter()

    def mark(self) -> Any:
        return time.perf_counter()

    def seconds_between(self, start: Any, end: Any) -> float:
        return float(end - start)


class CudaClock:
    """Clock of an NVIDIA GPU, whose marks are CUDA events."""

    def now(self) -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    def mark(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds_between(self, start: Any, end: Any) -> float:
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000


def clock_for(device_kind: str) -> Clock:
    return CudaClock() if device_kind == "cuda" else CpuClock()


def throughput_metrics(
    steady: Steady | None,
    steady_work: Work,
    parameters: int,
    peak_flops_per_second: float | None,
    attention_flops_per_pair: int | None = None,
    decoder_share: float = 0.0,
) -> dict[str, float]:
    """Return `throughput/*`; empty without `steady`.

    `steady_work` and `peak_flops_per_second` cover all devices. `parameters` is the number of parameters that take part
    in matrix products, and `decoder_share` the share of them that decoder tokens are multiplied with, instead of the
    other tokens. Utilisation is given with the products of attention and without them, if they can be counted.
    """
    if steady is None:
        return {}
    p25, p50, p75 = steady.step_seconds
    tokens_per_second = steady_work.tokens / steady.seconds
    metrics: dict[str, float] = {
        "throughput/steady_samples_per_second": steady_work.samples / steady.seconds,
        "throughput/steady_tokens_per_second": tokens_per_second,
        "throughput/steady_steps": steady.steps,
        "throughput/steady_step_seconds_p25": p25,
        "throughput/steady_step_seconds_p50": p50,
        "throughput/steady_step_seconds_p75": p75,
    }
    own = steady_work.decoder_tokens
    multiplied = parameters * ((1 - decoder_share) * (steady_work.tokens - own) + decoder_share * own)
    flops_per_second = FLOPS_PER_PARAMETER_AND_TOKEN * multiplied / steady.seconds
    metrics["throughput/model_flops_per_second"] = flops_per_second
    if attention_flops_per_pair is not None:
        attention = attention_flops_per_pair * steady_work.pairs / steady.seconds
        metrics["throughput/model_flops_with_attention_per_second"] = flops_per_second + attention
    if peak_flops_per_second is not None:
        for name in ("mfu", "mfu_with_attention"):
            flops = metrics.get(f"throughput/{name.replace('mfu', 'model_flops')}_per_second")
            if flops is not None:
                metrics[f"throughput/{name}"] = flops / peak_flops_per_second
    return metrics


def attention_flops_per_pair(model: PreTrainedModel) -> int | None:
    """Return the FLOP of attention's two products for each pair of tokens of a row, over all layers.

    Each product takes 2 FLOP per pair and hidden unit, and a training three times a forward pass: 12 FLOP per layer and
    hidden unit, as for PaLM's utilisation (Chowdhery et al. 2022, https://arxiv.org/abs/2204.02311, appendix B: 12 L H
    Q T per token of a row of T). Like there, a causal mask does not halve the count. None if the model's configuration
    does not state its layers and hidden units.
    """
    layers, hidden = (getattr(model.config, name, None) for name in ("num_hidden_layers", "hidden_size"))
    products = 12 if _passes_gradients(model) else 4
    return products * layers * hidden if layers and hidden else None


def _passes_gradients(model: PreTrainedModel) -> bool:
    """Return False if the model's body is frozen as a whole, so that only its forward pass is computed."""
    body: torch.nn.Module | None = getattr(model, "base_model", None)
    return body is None or any(each.requires_grad for each in body.parameters())


def multiplied_parameters(model: PreTrainedModel) -> int:
    """Return the number of parameters that every token is multiplied with: all except the embeddings.

    Embeddings are looked up, not multiplied. A head that shares its weights with the embeddings does multiply them:
    with GPT-2's vocabulary, that is a third of the work. Counted as for PaLM's utilisation: Chowdhery et al. 2022,
    https://arxiv.org/abs/2204.02311, appendix B. `attention_flops_per_pair` is its other term.

    A frozen parameter counts as two thirds: it multiplies in the forward pass and passes gradients on, but has no
    gradient itself. In a body that is frozen as a whole, it counts as a third.
    """
    parameters = int(model.num_parameters(exclude_embeddings=True))
    weight: torch.Tensor | None = getattr(model.get_output_embeddings(), "weight", None)
    if weight is not None and weight is model.get_input_embeddings().weight:
        parameters += weight.numel()
    runs = 1.0
    if groups := getattr(model.config, "num_hidden_groups", None):  # ALBERT's layers share weights, and run again
        runs = model.config.num_hidden_layers / groups
        shared = sum(weight.numel() for name, weight in model.named_parameters() if "layer_groups" in name)
        parameters += int(shared * runs - shared)
    frozen = sum(
        weight.numel() * (runs if "layer_groups" in name else 1)
        for name, module in model.named_modules()
        if not isinstance(module, torch.nn.Embedding)
        for weight in module.parameters(recurse=False)
        if not weight.requires_grad
    )
    saved = 2 if _passes_gradients(model) else 4
    return int(parameters - frozen * saved / FLOPS_PER_PARAMETER_AND_TOKEN)


def decoder_share(model: PreTrainedModel) -> float:
    """Return the share of the multiplied parameters that an encoder-decoder multiplies its decoder's tokens with.

    0 for other models. Two of the four matrices of attention to the encoder multiply the encoder's tokens instead:
    they are counted with the decoder's.
    """
    if not getattr(model.config, "is_encoder_decoder", False):
        return 0.0
    modules = model.get_encoder().modules()
    in_encoder = sum(
        weight.numel()
        for module in modules
        if not isinstance(module, torch.nn.Embedding)
        for weight in module.parameters(recurse=False)
    )
    head: torch.Tensor | None = getattr(model.get_output_embeddings(), "weight", None)
    everything = int(model.num_parameters(exclude_embeddings=True))
    if head is not None and head is model.get_input_embeddings().weight:
        everything += head.numel()
    return 1.0 - float(in_encoder) / everything


def time_metrics(phase_seconds: Mapping[str, float]) -> dict[str, float]:
    return {f"time/{phase}_seconds": seconds for phase, seconds in phase_seconds.items()}


def padding_metrics(work: Work) -> dict[str, float]:
    """Return the share of computed positions that are not padding."""
    return {"padding/efficiency": work.tokens / work.positions} if work.positions else {}
