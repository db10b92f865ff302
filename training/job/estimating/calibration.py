"""Calibration: a few steps at each of several batch sizes, within one job, to measure step time and memory.

Batch sizes are tried in ascending order. Those above the first that does not fit in memory are not tried. The steps are
taken outside of Trainer's loop, just before its first step. They are the same as in training, weight update included,
on batches that the training would use. Only the learning rate is 0: the weights do not change, so that every batch size
runs on the same weights.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from training.job.data.padding import Collator, Shape, planned_shapes
from training.job.estimating.probe import evaluation_share
from training.job.estimating.projection import FEWEST_STEPS, Plan, mean_step, plan, steps_to_measure
from training.job.loop.compile_phase import compile_shapes, is_dynamic
from training.job.loop.job_trainer import JobTrainer, train_sampler
from training.job.measuring.hardware import limit_to_free_memory, memory_limit_gib, peak_gib, reset_peak
from training.job.measuring.meter import Meter, clock_for, time_metrics
from training.job.processes import ranks
from training.job.processes.reporting import Events, failure_class

Batch = dict[str, object]


class CalibrationFinished(Exception):
    """Leaves Trainer's loop before the first step, with the measured metrics."""

    def __init__(self, metrics: dict[str, object]) -> None:
        super().__init__()
        self.metrics = metrics


def calibrate(trainer: JobTrainer, events: Events) -> dict[str, object]:
    """Emit a `metric` event for each batch size, with the size as its step, and return the metrics of the result."""
    settings = trainer.settings
    memory = memory_limit_gib(settings.device_kind, ranks.local_count())
    if settings.device_kind == "cpu":
        limit_to_free_memory(ranks.local_count())
    calibration, clock = Calibration(trainer), clock_for(settings.device_kind)
    start, largest, fits = clock.now(), 0, True
    for size in settings.arguments.calibration_batch_sizes:
        values = calibration.measure(size) if fits else None
        fits = values is not None
        largest = size if fits else largest
        measured = {"fits": 1, **values} if values is not None else {"fits": 0, "steps": 0}
        events.emit("metric", step=size, values={f"calibration/{name}": value for name, value in measured.items()})
    metrics = {
        "calibration/largest_batch_size": largest,
        "calibration/seconds": clock.now() - start,
        "calibration/memory_limit_gib": memory,
        "calibration/eval_seconds": calibration.evaluation_seconds(),
    }
    return {**metrics, **settings.compiler.metrics(), **time_metrics(trainer.meter.phase_seconds)}


class Calibration:
    """Measures batch sizes one after the other."""

    def __init__(self, trainer: JobTrainer) -> None:
        settings = trainer.settings
        self._settings, self._trainer = settings, trainer
        # The first step of a shape takes longer: a GPU chooses kernels, and processes connect.
        self._warms_up = settings.device_kind != "cpu" or settings.processes > 1
        self._dynamic: bool | None = None
        self._has_states = False
        # `training_step` reads this value, which Trainer's loop sets before every step.
        trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
        for group in trainer.optimizer.param_groups:
            group["lr"] = 0.0

    def measure(self, size: int) -> dict[str, float] | None:
        """Return the step time and memory of a batch size, or None if a step does not fit in memory.

        With several processes, each first takes a step alone to see if it fits. If one ran out of memory in a common
        step, the others would wait for its gradients forever.
        """
        settings, device_kind = self._settings, self._settings.device_kind
        reset_peak(device_kind)
        order, lengths = train_sampler(settings, size).order(0), settings.train.rows.lengths
        batches_per_step = settings.arguments.gradient_accumulation_steps * settings.processes
        planned = plan(order, lengths, size, batches_per_step, settings.processes, settings.padding)
        is_single, compiled_before = settings.processes == 1, self._compile_seconds()
        fits, values = True, None
        try:
            self._compile(size)
            self._take_with_largest_batch(planned)
            values = self._measure_steps(planned) if is_single else None
        except Exception as error:
            if failure_class(error) != "OutOfMemory":
                raise
            fits = False
        fits = ranks.sum_over_processes([float(fits)], self._trainer.args.device)[0] == ranks.count()
        if not fits:
            # Free the memory of the step that failed halfway.
            self._trainer.model_wrapped.zero_grad(set_to_none=True)
            reset_peak(device_kind)
            return None
        if values is None:
            values = self._measure_steps(planned)
        values["peak_memory_gib"] = max(ranks.gather(peak_gib(device_kind)))
        if settings.compiler.compiles_here:
            values["compile_seconds"] = self._compile_seconds() - compiled_before
        return values

    def evaluation_seconds(self) -> float:
        """Return the seconds that evaluating all rows would take, extrapolated from a sample."""
        before = 0.0
        for _ in range(2 if self._warms_up else 1):
            before = self._trainer.meter.phase_seconds.get("eval", 0.0)
            self._trainer.evaluate()
        return (self._trainer.meter.phase_seconds["eval"] - before) * evaluation_share(self._settings)

    def _compile_seconds(self) -> float:
        return self._trainer.meter.phase_seconds.get("compile", 0.0)

    def _compile(self, size: int) -> None:
        settings, trainer = self._settings, self._trainer
        if not settings.compiler.compiles_here:
            return
        if self._dynamic is None:
            sizes = settings.arguments.calibration_batch_sizes
            self._dynamic = is_dynamic(settings, [shape for each in sizes for shape in self._shapes(each)])
            settings.compiler.prepare(trainer.model, self._dynamic)
        with trainer.meter.phase("compile"):
            compile_shapes(trainer, trainer.model, self._shapes(size), self._dynamic)
        settings.compiler.mark_warm()

    def _shapes(self, size: int) -> list[Shape]:
        order, lengths = train_sampler(self._settings, size).order(0), self._settings.train.rows.lengths
        return planned_shapes([order], lengths, size, len(order), self._settings.padding)

    def _take_with_largest_batch(self, planned: Plan) -> None:
        """Take a step with the largest batch in this process alone, on the model without its wrapper.

        With gradient accumulation, memory peaks at the second batch of a step, when gradients already exist. The
        optimizer's states exist only after its first step, so the first call takes two steps.
        """
        batch = self._collated(planned, planned.largest)
        for _ in range(1 if self._has_states else 2):
            for _ in range(min(self._settings.arguments.gradient_accumulation_steps, 2)):
                self._forward_and_backward(batch, self._trainer.model)
            optimizer_step(self._trainer)
        self._has_states = True

    def _measure_steps(self, planned: Plan) -> dict[str, float]:
        if self._warms_up:
            self._take(planned, planned.sample(), FEWEST_STEPS, None)
        meter, sample = Meter(clock_for(self._settings.device_kind), 0), planned.sample()
        steps = self._take(planned, sample, FEWEST_STEPS, meter)
        count = steps_to_measure(meter.step_seconds(), self._settings.arguments.calibration_seconds)
        steps += self._take(planned, sample, ranks.gather(count)[0] - FEWEST_STEPS, meter)
        mean = mean_step(meter.step_seconds(), planned.positions[steps], float(planned.positions.mean()))
        return {
            "step_seconds": mean.seconds,
            "step_seconds_low": mean.low,
            "step_seconds_high": mean.high,
            "steps": len(steps),
            "samples_per_second": planned.rows_per_step / mean.seconds,
        }

    def _take(self, planned: Plan, sample: Iterator[int], count: int, meter: Meter | None) -> list[int]:
        """Take the next `count` steps of the sample, time them with the meter, and return their step numbers."""
        numbers = list(islice(sample, count))
        steps: Any = (
            [self._collated(planned, rows) for rows in planned.batches(number, ranks.rank())] for number in numbers
        )
        if self._trainer.args.dataloader_num_workers > 0:
            # With data workers, batches are prepared while the device computes, so their preparation is not timed.
            # Without, it is part of the step.
            steps = list(steps)
        if meter is not None:
            meter.begin_steps()
        model = self._trainer.model_wrapped
        for batches in steps:
            with model.no_sync() if hasattr(model, "no_sync") else nullcontext():
                for batch in batches[:-1]:
                    self._forward_and_backward(batch, model)
            self._forward_and_backward(batches[-1], model)
            optimizer_step(self._trainer)
            if meter is not None:
                meter.end_step()
        return numbers

    def _forward_and_backward(self, batch: Batch, model: PreTrainedModel) -> None:
        device = self._trainer.args.device
        moved = {name: value.to(device) if hasattr(value, "to") else value for name, value in batch.items()}
        self._trainer.training_step(model, moved)

    def _collated(self, planned: Plan, numbers: np.ndarray) -> Batch:
        settings = self._settings
        collator = Collator(settings.padding, settings.train.metadata, settings.task.targets, planned.batch_size)
        return collator([settings.train.rows[int(number)] for number in numbers])


def optimizer_step(trainer: JobTrainer) -> None:
    """Update the weights as Trainer does: clip the gradients, step, clear the gradients."""
    model, norm = trainer.model_wrapped, trainer.args.max_grad_norm
    if norm > 0:
        trainer.accelerator.clip_grad_norm_(model.parameters(), norm)
    trainer.optimizer.step()
    model.zero_grad()
