"""Probe: the beginning of a training, which ends as soon as the duration of the full training is known well enough.

It trains like the full training, with the same row order and learning rate schedule, so its losses are those of the
full one. Evaluations use a sample of the rows and compute no scores. Their time is scaled up to all rows.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional

import numpy as np
from transformers import TrainerCallback

from data.batch_shapes import planned_batches, step_positions
from data.channels import Rows
from data.sampler import TrainSampler
from loop.job_trainer import JobTrainer
from measuring.projection import MIN_STEPS, Estimate, remaining
from processes import ranks
from reporting.events import Events
from settings.arguments import Arguments
from settings.job_settings import Settings

SHARE = 10
"""Without a sample limit, a probe takes at most one tenth of the training."""

CHECK_SPACING = 2
"""Each check comes after this many times the steps of the one before. Few checks are better: each one is another chance
that the interval is narrow by luck."""


@dataclass(frozen=True)
class FullTraining:
    """The training that a probe is the beginning of."""

    steps: int
    """Optimizer steps."""
    last_step: int
    """Step at which the probe ends at the latest."""
    samples: int
    """Samples that it trains on."""
    positions: np.ndarray
    """Positions of its planned steps, in order: rows times tokens, padding included."""
    evaluations: int
    """Number of evaluations."""
    checkpoints: int
    """Number of checkpoints written."""
    evaluation_share: float
    """Work of one of its evaluations divided by the work of one of the probe's."""


def plan_full_training(settings: Settings, sampler: TrainSampler, steps: int) -> FullTraining:
    """Return the training of `steps` steps that the settings describe."""
    arguments, lengths = settings.arguments, settings.train.rows.lengths
    batches_a_step = arguments.gradient_accumulation_steps * settings.processes
    last = last_step(arguments, steps, settings.global_batch_size)
    epochs: List[np.ndarray] = []
    # Plan one epoch more than the probe can reach: the remaining steps are like it.
    while len(epochs) < 2 or sum(map(len, epochs[:-1])) < last:
        order = sampler.order(len(epochs))
        epochs.append(step_positions(order, lengths, arguments.batch_size, batches_a_step, settings.padding))
    in_epoch = len(epochs[0])
    return FullTraining(
        steps=steps,
        last_step=last,
        samples=min(math.ceil(len(lengths) * steps / in_epoch), steps * settings.global_batch_size),
        positions=np.concatenate(epochs)[:steps],
        evaluations=_times(arguments.eval_strategy, arguments.eval_steps, steps, in_epoch),
        checkpoints=_times(arguments.save_strategy, arguments.save_steps, steps, in_epoch),
        evaluation_share=evaluation_share(settings),
    )


def last_step(arguments: Arguments, steps: int, global_batch_size: int) -> int:
    """Return the step at which a probe ends at the latest. It always has enough steps for an estimate."""
    limit = arguments.probe_samples
    most = math.ceil(limit / global_batch_size) if limit else math.ceil(steps / SHARE)
    return min(steps, max(most, arguments.steady_after_steps + MIN_STEPS))


def evaluation_share(settings: Settings) -> float:
    """Return the work of a full evaluation divided by the work of evaluating the sample."""
    every_row, sample = settings.validation.rows, settings.evaluated.rows
    return _evaluation_positions(settings, every_row) / _evaluation_positions(settings, sample)


def _evaluation_positions(settings: Settings, rows: Rows) -> int:
    lengths = np.sort(rows.lengths)
    batches = planned_batches(
        np.arange(len(lengths)), lengths, settings.arguments.eval_batch_size, settings.eval_padding
    )
    return int((batches.rows * batches.lengths).sum())


class Probe(TrainerCallback):  # type: ignore[misc]
    """Callback that ends a training early. Trainer must call it after the callback that updates the meter."""

    def __init__(self, settings: Settings, sampler: TrainSampler, trainer: JobTrainer, events: Events) -> None:
        self._settings, self._sampler, self._trainer, self._events = settings, sampler, trainer, events
        self._warmup = settings.arguments.steady_after_steps
        self._first_step = settings.progress_before.step
        self._full: Optional[FullTraining] = None
        self._checks = _checks()
        self._next_check = next(self._checks)
        self._fresh: Optional[Estimate] = None
        self._evaluations = self._checkpoints = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Plan the full training. Trainer now knows its number of steps."""
        self._full = plan_full_training(self._settings, self._sampler, state.max_steps)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the training when the estimate is precise enough, with a checkpoint if the full training writes any."""
        assert self._full is not None, "planned when the training began"
        measured = state.global_step - self._first_step - self._warmup
        # A probe that resumes from a checkpoint has to measure again.
        is_last = state.global_step >= self._full.last_step and measured >= MIN_STEPS
        if not is_last and measured < self._next_check:
            return
        while self._next_check <= measured:
            self._next_check = next(self._checks)
        self._fresh = self._steps_to_come(state.global_step)
        control.should_log = True
        if is_last or self._is_certain(args.device):
            self._trainer.meter.end_steps()
            control.should_training_stop, control.should_evaluate = True, False
            control.should_save = self._settings.saves

    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, Any]] = None, **_: Any) -> None:
        """Emit the estimate of a check, once the samples are counted."""
        if self._fresh and "loss" in (logs or {}):
            total, self._fresh = self._fresh.plus(self._trainer.elapsed_seconds()), None
            values = {f"projected/seconds{end}": value for end, value in zip(("", "_low", "_high"), total)}
            self._events.emit(
                "metric", step=state.global_step, epoch=state.epoch, samples=self._trainer.samples_seen, values=values
            )

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count the evaluation."""
        self._evaluations += 1

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count the checkpoint."""
        self._checkpoints += 1

    def metrics(self) -> Dict[str, float]:
        """Return the seconds that the full training would take beyond this one; empty after too few steps."""
        if self._full is None:
            return {}
        steps_to_come = self._steps_to_come(self._trainer.state.global_step)
        if steps_to_come is None:
            return {}
        spent = self._trainer.meter.phase_seconds
        evaluations = spent.get("eval", 0.0) * (
            self._full.evaluation_share * self._full.evaluations / max(self._evaluations, 1) - 1
        )
        checkpoints = spent.get("checkpoint", 0.0) * (self._full.checkpoints / max(self._checkpoints, 1) - 1)
        rest = steps_to_come.plus(evaluations + checkpoints)
        metrics = {f"projected/remaining_seconds{end}": value for end, value in zip(("", "_low", "_high"), rest)}
        return {**metrics, "projected/samples": self._full.samples, "projected/steps": self._full.steps}

    def _steps_to_come(self, step: int) -> Optional[Estimate]:
        assert self._full is not None, "planned when the training began"
        to_come = self._full.steps - step
        if to_come <= 0:
            return Estimate(0.0, 0.0, 0.0)
        seconds = self._trainer.meter.step_seconds()[self._warmup :]
        positions = self._full.positions
        measured = positions[self._first_step + self._warmup : step]
        rest = positions[step:] if step < len(positions) else positions
        return remaining(seconds, measured, float(rest.mean()), to_come)

    def _is_certain(self, device: Any) -> bool:
        """Return the first process's decision whether the estimate is precise enough. All processes must call this."""
        if not ranks.can_exchange_flags():
            return False
        certain = False
        if self._fresh and ranks.rank() == 0:
            total = self._fresh.plus(self._trainer.elapsed_seconds())
            certain = total.relative_error <= (self._settings.arguments.probe_precision or 0.0)
        return bool(ranks.sum_over_processes([float(certain)], device)[0])


def _checks() -> Iterator[int]:
    """Yield the numbers of measured steps at which a probe checks its estimate."""
    return (MIN_STEPS * CHECK_SPACING**number for number in itertools.count())


def _times(strategy: str, every: Optional[int], steps: int, steps_an_epoch: int) -> int:
    """Return the number of times a training evaluates or saves, its end included."""
    between = {"none": None, "end": steps, "epoch": steps_an_epoch, "steps": every}[strategy]
    return math.ceil(steps / between) if between else 0
