"""A probe: the beginning of a training, cut off as soon as it is certain enough how long the whole would take.

It trains as the whole training does, with its order of rows and its course of the learning rate, so that its losses are
those of the whole one too. Evaluations take a sample of the rows and no scores, and are told as long as they would be.
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
from measuring.projection import FEWEST_STEPS, Estimate, remaining
from processes import ranks
from reporting.events import Events
from settings.arguments import Arguments
from settings.job_settings import Settings

SHARE = 10
"""A probe that is told no number of samples takes at most the tenth part of the training."""

LOOKS_APART = 2
"""Each look takes place after so many times the steps of the one before: the more often one looks whether chance has
made the interval narrow enough, the more often it has."""


@dataclass(frozen=True)
class Whole:
    """The training that a probe is the beginning of."""

    steps: int
    """Optimizer steps."""
    last_step: int
    """With which the probe ends at the latest."""
    samples: int
    """Rows it sees."""
    positions: np.ndarray
    """Of its steps in their order, as far as they are planned: rows times tokens, padding included."""
    evaluations: int
    """How often it evaluates."""
    checkpoints: int
    """How many it writes."""
    evaluation_share: float
    """Work of one of its evaluations over that of one of the probe's."""


def whole_training(settings: Settings, sampler: TrainSampler, steps: int) -> Whole:
    """Return the training of so many steps that the settings ask for."""
    arguments, lengths = settings.arguments, settings.train.rows.lengths
    batches_a_step = arguments.gradient_accumulation_steps * settings.processes
    last = last_step(arguments, steps, settings.global_batch_size)
    epochs: List[np.ndarray] = []
    # One epoch more than the probe can reach: what is to come is like it.
    while len(epochs) < 2 or sum(map(len, epochs[:-1])) < last:
        order = sampler.order(len(epochs))
        epochs.append(step_positions(order, lengths, arguments.batch_size, batches_a_step, settings.padding))
    in_epoch = len(epochs[0])
    return Whole(
        steps=steps,
        last_step=last,
        samples=min(math.ceil(len(lengths) * steps / in_epoch), steps * settings.global_batch_size),
        positions=np.concatenate(epochs)[:steps],
        evaluations=_times(arguments.eval_strategy, arguments.eval_steps, steps, in_epoch),
        checkpoints=_times(arguments.save_strategy, arguments.save_steps, steps, in_epoch),
        evaluation_share=evaluation_share(settings),
    )


def last_step(arguments: Arguments, steps: int, global_batch_size: int) -> int:
    """Return the step with which a probe ends at the latest: never too few steps to tell anything."""
    asked = arguments.probe_samples
    most = math.ceil(asked / global_batch_size) if asked else math.ceil(steps / SHARE)
    return min(steps, max(most, arguments.steady_after_steps + FEWEST_STEPS))


def evaluation_share(settings: Settings) -> float:
    """Return the work of a whole evaluation over that of one of a sample of the rows."""
    whole, sample = settings.validation.rows, settings.evaluated.rows
    return _evaluation_positions(settings, whole) / _evaluation_positions(settings, sample)


def _evaluation_positions(settings: Settings, rows: Rows) -> int:
    lengths = np.sort(rows.lengths)
    batches = planned_batches(
        np.arange(len(lengths)), lengths, settings.arguments.eval_batch_size, settings.eval_padding
    )
    return int((batches.rows * batches.lengths).sum())


class Probe(TrainerCallback):  # type: ignore[misc]
    """Watches a training and ends it; told by Trainer after the meter is."""

    def __init__(self, settings: Settings, sampler: TrainSampler, trainer: JobTrainer, events: Events) -> None:
        self._settings, self._sampler, self._trainer, self._events = settings, sampler, trainer, events
        self._warmup = settings.arguments.steady_after_steps
        self._first_step = settings.progress_before.step
        self._whole: Optional[Whole] = None
        self._looks = _looks()
        self._next_look = next(self._looks)
        self._fresh: Optional[Estimate] = None
        self._evaluations = self._checkpoints = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Plan the whole training, once Trainer has worked out its steps."""
        self._whole = whole_training(self._settings, self._sampler, state.max_steps)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the training when enough is known, with a checkpoint where the whole one writes any."""
        assert self._whole is not None, "planned when the training began"
        measured = state.global_step - self._first_step - self._warmup
        # One that goes on from a checkpoint has to measure anew.
        is_last = state.global_step >= self._whole.last_step and measured >= FEWEST_STEPS
        if not is_last and measured < self._next_look:
            return
        while self._next_look <= measured:
            self._next_look = next(self._looks)
        self._fresh = self._steps_to_come(state.global_step)
        control.should_log = True
        if is_last or self._is_certain(args.device):
            self._trainer.meter.end_steps()
            control.should_training_stop, control.should_evaluate = True, False
            control.should_save = self._settings.saves

    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, Any]] = None, **_: Any) -> None:
        """Tell what a look has found, once the samples are counted."""
        if self._fresh and "loss" in (logs or {}):
            found, self._fresh = self._fresh.plus(self._trainer.elapsed_seconds()), None
            values = {f"projected/seconds{end}": value for end, value in zip(("", "_low", "_high"), found)}
            self._events.emit(
                "metric", step=state.global_step, epoch=state.epoch, samples=self._trainer.samples_seen, values=values
            )

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count."""
        self._evaluations += 1

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count."""
        self._checkpoints += 1

    def metrics(self) -> Dict[str, float]:
        """Return what the whole training would take beyond this one, seconds; nothing where too few steps tell."""
        if self._whole is None:
            return {}
        steps_to_come = self._steps_to_come(self._trainer.state.global_step)
        if steps_to_come is None:
            return {}
        spent = self._trainer.meter.phase_seconds
        evaluations = spent.get("eval", 0.0) * (
            self._whole.evaluation_share * self._whole.evaluations / max(self._evaluations, 1) - 1
        )
        checkpoints = spent.get("checkpoint", 0.0) * (self._whole.checkpoints / max(self._checkpoints, 1) - 1)
        found = steps_to_come.plus(evaluations + checkpoints)
        told = {f"projected/remaining_seconds{end}": value for end, value in zip(("", "_low", "_high"), found)}
        return {**told, "projected/samples": self._whole.samples, "projected/steps": self._whole.steps}

    def _steps_to_come(self, step: int) -> Optional[Estimate]:
        assert self._whole is not None, "planned when the training began"
        to_come = self._whole.steps - step
        if to_come <= 0:
            return Estimate(0.0, 0.0, 0.0)
        seconds = self._trainer.meter.step_seconds()[self._warmup :]
        positions = self._whole.positions
        measured = positions[self._first_step + self._warmup : step]
        rest = positions[step:] if step < len(positions) else positions
        return remaining(seconds, measured, float(rest.mean()), to_come)

    def _is_certain(self, device: Any) -> bool:
        """Tell whether the first process is certain; all ask together, and all get its answer."""
        if not ranks.can_agree():
            return False
        certain = False
        if self._fresh and ranks.rank() == 0:
            found = self._fresh.plus(self._trainer.elapsed_seconds())
            certain = found.relative_error <= (self._settings.arguments.probe_precision or 0.0)
        return bool(ranks.sum_over_processes([float(certain)], device)[0])


def _looks() -> Iterator[int]:
    """Yield after how many measured steps a probe looks whether it is certain."""
    return (FEWEST_STEPS * LOOKS_APART**look for look in itertools.count())


def _times(strategy: str, every: Optional[int], steps: int, steps_an_epoch: int) -> int:
    """Return how often something is done in a training, its end included."""
    between = {"none": None, "end": steps, "epoch": steps_an_epoch, "steps": every}[strategy]
    return math.ceil(steps / between) if between else 0
