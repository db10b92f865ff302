"""Probe: the beginning of a training, which ends as soon as the full training's duration is known precisely enough.

It trains like the full training, with the same row order and learning rate schedule, so the losses are the same.
Evaluations use a sample of the rows and compute no scores. Their time is scaled up to all rows.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Dict, List, Optional

import numpy as np
import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from training.job.data.channels import Rows
from training.job.data.padding import TrainSampler, planned_batches, step_positions
from training.job.estimating.projection import MIN_STEPS, Estimate, remaining
from training.job.loop.job_trainer import JobTrainer
from training.job.processes import ranks
from training.job.processes.reporting import Events
from training.job.settings.arguments import Arguments
from training.job.settings.job_settings import Settings

MAX_FRACTION = 10
"""Without a sample limit, a probe takes at most the training's steps divided by this."""

CHECK_SPACING = 2
"""Factor from the measured steps of one check to the next one's. Few checks are better: each is another chance that
the interval is narrow by luck."""


@dataclass(frozen=True)
class FullTraining:
    """The full training of which a probe is the beginning."""

    steps: int
    last_step: int
    """Step at which the probe ends at the latest."""
    samples: int
    positions: np.ndarray
    """Positions of the planned steps, in order: rows times tokens, padding included."""
    evaluations: int
    checkpoints: int
    evaluation_share: float
    """Work of one full evaluation divided by the work of one of the probe's evaluations."""


def plan_full_training(settings: Settings, sampler: TrainSampler, steps: int) -> FullTraining:
    arguments, lengths = settings.arguments, settings.train.rows.lengths
    batches_per_step = arguments.gradient_accumulation_steps * settings.processes
    last = last_step(arguments, steps, settings.global_batch_size)
    epochs: List[np.ndarray] = []
    # Plan one epoch more than the probe can reach. It stands for all remaining steps.
    while len(epochs) < 2 or sum(map(len, epochs[:-1])) < last:
        order = sampler.order(len(epochs))
        epochs.append(step_positions(order, lengths, arguments.batch_size, batches_per_step, settings.padding))
    steps_per_epoch = len(epochs[0])
    return FullTraining(
        steps=steps,
        last_step=last,
        samples=min(math.ceil(len(lengths) * steps / steps_per_epoch), steps * settings.global_batch_size),
        positions=np.concatenate(epochs)[:steps],
        evaluations=_occurrences(arguments.eval_strategy, arguments.eval_steps, steps, steps_per_epoch),
        checkpoints=_occurrences(arguments.save_strategy, arguments.save_steps, steps, steps_per_epoch),
        evaluation_share=evaluation_share(settings),
    )


def last_step(arguments: Arguments, steps: int, global_batch_size: int) -> int:
    """Return the step at which a probe ends at the latest.

    It is never too early for an estimate, unless the full training is too short for one.
    """
    limit = arguments.probe_samples
    max_steps = math.ceil(limit / global_batch_size) if limit else math.ceil(steps / MAX_FRACTION)
    return min(steps, max(max_steps, arguments.steady_after_steps + MIN_STEPS))


def evaluation_share(settings: Settings) -> float:
    """Return the work of a full evaluation divided by the work of evaluating the sample."""
    every_row, sample = settings.validation.rows, settings.evaluated.rows
    return _evaluation_positions(settings, every_row) / _evaluation_positions(settings, sample)


def _evaluation_positions(settings: Settings, rows: Rows) -> int:
    lengths = np.sort(rows.lengths)
    batches = planned_batches(
        np.arange(len(lengths)), lengths, settings.arguments.eval_batch_size, settings.eval_padding
    )
    return int(batches.positions.sum())


class Probe(TrainerCallback):  # type: ignore[misc]
    """Callback that ends a training early. Trainer must call it after the `Reporter`, which updates the meter."""

    def __init__(self, settings: Settings, sampler: TrainSampler, trainer: JobTrainer, events: Events) -> None:
        self._settings, self._sampler, self._trainer, self._events = settings, sampler, trainer, events
        self._warmup = settings.arguments.steady_after_steps
        self._first_step = settings.progress_before.step
        self._full: Optional[FullTraining] = None
        self._checks = (MIN_STEPS * CHECK_SPACING**number for number in itertools.count())
        self._next_check = next(self._checks)
        self._unlogged_estimate: Optional[Estimate] = None
        self._evaluations = self._checkpoints = 0

    def on_train_begin(self, args: object, state: TrainerState, control: TrainerControl, **_: object) -> None:
        self._full = plan_full_training(self._settings, self._sampler, state.max_steps)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """End the training when the estimate is precise enough, with a checkpoint if the full training writes any."""
        assert self._full is not None, "planned when the training began"
        measured = state.global_step - self._first_step - self._warmup
        # A probe that resumes from a checkpoint has to measure again, even past its last step.
        is_last = state.global_step >= self._full.last_step and measured >= MIN_STEPS
        if not is_last and measured < self._next_check:
            return
        while self._next_check <= measured:
            self._next_check = next(self._checks)
        self._unlogged_estimate = self._remaining_time(state.global_step)
        control.should_log = True
        if is_last or self._is_precise_enough(args.device):
            self._trainer.meter.end_steps()
            control.should_training_stop, control.should_evaluate = True, False
            control.should_save = self._settings.saves

    def on_log(
        self,
        args: object,
        state: TrainerState,
        control: TrainerControl,
        logs: Optional[Dict[str, float]] = None,
        **_: object,
    ) -> None:
        """Emit the estimate of a check, once the samples are counted."""
        if self._unlogged_estimate and "loss" in (logs or {}):
            total = self._unlogged_estimate.plus(self._trainer.elapsed_seconds())
            self._unlogged_estimate = None
            values = {f"projected/seconds{end}": value for end, value in zip(("", "_low", "_high"), total)}
            self._events.emit(
                "metric", step=state.global_step, epoch=state.epoch, samples=self._trainer.samples_seen, values=values
            )

    def on_evaluate(self, args: object, state: TrainerState, control: TrainerControl, **_: object) -> None:
        self._evaluations += 1

    def on_save(self, args: object, state: TrainerState, control: TrainerControl, **_: object) -> None:
        self._checkpoints += 1

    def metrics(self) -> Dict[str, float]:
        """Return the seconds that the full training would take after this probe; empty after too few steps."""
        if self._full is None:
            return {}
        remaining_steps = self._remaining_time(self._trainer.state.global_step)
        if remaining_steps is None:
            return {}
        spent = self._trainer.meter.phase_seconds
        evaluations = spent.get("eval", 0.0) * (
            self._full.evaluation_share * self._full.evaluations / max(self._evaluations, 1) - 1
        )
        checkpoints = spent.get("checkpoint", 0.0) * (self._full.checkpoints / max(self._checkpoints, 1) - 1)
        total = remaining_steps.plus(evaluations + checkpoints)
        metrics = {f"projected/remaining_seconds{end}": value for end, value in zip(("", "_low", "_high"), total)}
        size = {"samples": self._full.samples, "steps": self._full.steps, "checkpoints": self._full.checkpoints}
        return {**metrics, **{f"projected/{name}": value for name, value in size.items()}}

    def _remaining_time(self, step: int) -> Optional[Estimate]:
        """Return the time of the steps after this one, without evaluations and checkpoints; None if it is unknown."""
        assert self._full is not None, "planned when the training began"
        steps_to_come = self._full.steps - step
        if steps_to_come <= 0:
            return Estimate(0.0, 0.0, 0.0)
        seconds = self._trainer.meter.step_seconds()[self._warmup :]
        positions = self._full.positions
        measured = positions[self._first_step + self._warmup : step]
        positions_to_come = positions[step:] if step < len(positions) else positions
        return remaining(seconds, measured, float(positions_to_come.mean()), steps_to_come)

    def _is_precise_enough(self, device: torch.device) -> bool:
        """Return True if the first process's estimate is precise enough. All processes must call this."""
        if not ranks.can_exchange_flags():
            return False
        is_precise = False
        if self._unlogged_estimate and ranks.rank() == 0:
            total = self._unlogged_estimate.plus(self._trainer.elapsed_seconds())
            is_precise = total.relative_error <= (self._settings.arguments.probe_precision or 0.0)
        return bool(ranks.sum_over_processes([float(is_precise)], device)[0])


def _occurrences(strategy: str, every: Optional[int], steps: int, steps_per_epoch: int) -> int:
    """Return how often a training evaluates or saves, including at its end."""
    interval = {"none": None, "end": steps, "epoch": steps_per_epoch, "steps": every}[strategy]
    return math.ceil(steps / interval) if interval else 0
