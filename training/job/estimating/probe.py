"""Probe: the beginning of a training, which ends as soon as the full training's duration is known precisely enough.

It trains like the full training, with the same row order and learning rate schedule, so the losses are the same.
Evaluations use a sample of the rows and compute no scores. Their time is scaled up to all rows.
"""

import math

import numpy as np
import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from training.job.data.channels import Rows
from training.job.data.padding import planned_batches, step_positions
from training.job.estimating.projection import MIN_STEPS, Estimate, remaining
from training.job.loop.job_trainer import JobTrainer
from training.job.processes import ranks
from training.job.processes.reporting import Events
from training.job.settings.job_settings import Settings

MAX_FRACTION = 10
"""Without a sample limit, a probe takes at most the training's steps divided by this."""

CHECK_SPACING = 2
"""Factor from the measured steps of one check to the next one's. Few checks are better: each is another chance that
the interval is narrow by luck."""


def evaluation_share(settings: Settings) -> float:
    """Return the work of a full evaluation divided by the work of evaluating the sample."""

    def positions(rows: Rows) -> int:
        lengths, batch_size = np.sort(rows.lengths), settings.arguments.eval_batch_size
        return int(planned_batches(np.arange(len(lengths)), lengths, batch_size, settings.eval_padding).positions.sum())

    return positions(settings.validation.rows) / positions(settings.evaluated.rows)


class Probe(TrainerCallback):  # type: ignore[misc]
    """Callback that ends a training early. Trainer must call it after the `Reporter`, which updates the meter."""

    def __init__(self, trainer: JobTrainer, events: Events) -> None:
        self._settings, self._trainer, self._events = trainer.settings, trainer, events
        self._warmup = self._settings.arguments.steady_after_steps
        self._first_step = self._settings.progress_before.step
        self._steps = self._last_step = self._steps_per_epoch = 0
        self._positions = np.zeros(0)
        """Positions of the planned steps, in order: rows times tokens, padding included."""
        self._next_check = MIN_STEPS
        self._unlogged_estimate: Estimate | None = None
        self._evaluations = self._checkpoints = 0

    def on_train_begin(self, args: object, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """Plan the full training."""
        settings, arguments, self._steps = self._settings, self._settings.arguments, state.max_steps
        limit = arguments.probe_samples
        most = math.ceil(limit / settings.global_batch_size) if limit else math.ceil(self._steps / MAX_FRACTION)
        # Never too early for an estimate, unless the full training is too short for one.
        self._last_step = min(self._steps, max(most, arguments.steady_after_steps + MIN_STEPS))
        batches_per_step = arguments.gradient_accumulation_steps * settings.processes
        epochs: list[np.ndarray] = []
        # Plan one epoch more than the probe can reach. It stands for all remaining steps.
        while len(epochs) < 2 or sum(map(len, epochs[:-1])) < self._last_step:
            order, lengths = self._trainer.sampler.order(len(epochs)), settings.train.rows.lengths
            epochs.append(step_positions(order, lengths, arguments.batch_size, batches_per_step, settings.padding))
        self._steps_per_epoch = len(epochs[0])
        self._positions = np.concatenate(epochs)[: self._steps]

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """End the training when the estimate is precise enough, with a checkpoint if the full training writes any."""
        measured = state.global_step - self._first_step - self._warmup
        # A probe that resumes from a checkpoint has to measure again, even past its last step.
        is_last = state.global_step >= self._last_step and measured >= MIN_STEPS
        if not is_last and measured < self._next_check:
            return
        while self._next_check <= measured:
            self._next_check *= CHECK_SPACING
        self._unlogged_estimate = self._remaining_time(state.global_step)
        control.should_log = True
        if is_last or self._is_precise_enough(args.device):
            self._trainer.meter.end_steps()
            control.should_training_stop, control.should_evaluate = True, False
            control.should_save = self._settings.saves

    def on_log(
        self, args: object, state: TrainerState, control: TrainerControl, logs: dict[str, float], **_: object
    ) -> None:
        """Emit the estimate of a check, once the samples are counted."""
        if self._unlogged_estimate and "loss" in logs:
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

    def metrics(self) -> dict[str, float]:
        """Return the seconds that the full training would take after this probe; empty after too few steps."""
        remaining_steps = self._remaining_time(self._trainer.state.global_step)
        if remaining_steps is None or not self._steps:
            return {}
        settings, arguments, spent = self._settings, self._settings.arguments, self._trainer.meter.phase_seconds
        evaluations = self._occurrences(arguments.eval_strategy, arguments.eval_steps)
        checkpoints = self._occurrences(arguments.save_strategy, arguments.save_steps)
        # A full evaluation takes longer than the probe's.
        evaluations_to_come = evaluation_share(settings) * evaluations / max(self._evaluations, 1) - 1
        checkpoints_to_come = checkpoints / max(self._checkpoints, 1) - 1
        total = remaining_steps.plus(
            spent.get("eval", 0.0) * evaluations_to_come + spent.get("checkpoint", 0.0) * checkpoints_to_come
        )
        rows = math.ceil(len(settings.train.rows) * self._steps / self._steps_per_epoch)
        return {
            **{f"projected/remaining_seconds{end}": value for end, value in zip(("", "_low", "_high"), total)},
            "projected/samples": min(rows, self._steps * settings.global_batch_size),
            "projected/steps": self._steps,
            "projected/checkpoints": checkpoints,
        }

    def _remaining_time(self, step: int) -> Estimate | None:
        """Return the time of the steps after this one, without evaluations and checkpoints; None if it is unknown."""
        steps_to_come = self._steps - step
        if steps_to_come <= 0:
            return Estimate(0.0, 0.0, 0.0)
        seconds = self._trainer.meter.step_seconds()[self._warmup :]
        positions = self._positions
        measured = positions[self._first_step + self._warmup : step]
        positions_to_come = positions[step:] if step < len(positions) else positions
        return remaining(seconds, measured, float(positions_to_come.mean()), steps_to_come)

    def _is_precise_enough(self, device: torch.device) -> bool:
        """Return True if the first process's estimate is precise enough. All processes must call this."""
        is_precise = False
        if self._unlogged_estimate and ranks.rank() == 0:
            total = self._unlogged_estimate.plus(self._trainer.elapsed_seconds())
            is_precise = total.relative_error <= (self._settings.arguments.probe_precision or 0.0)
        return bool(ranks.sum_over_processes([float(is_precise)], device)[0])

    def _occurrences(self, strategy: str, every: int | None) -> int:
        """Return how often the full training evaluates or saves, including at its end."""
        intervals = {"none": None, "end": self._steps, "epoch": self._steps_per_epoch, "steps": every}
        interval = intervals[strategy]
        return math.ceil(self._steps / interval) if interval else 0
