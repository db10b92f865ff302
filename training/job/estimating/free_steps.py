"""Optimizer steps of any batch size, taken outside of Trainer's loop at the point where it would take its first.

They are the trainer's own, the update of the weights included, on batches that the training would take. Only the
learning rate is 0: no weight changes, and all batch sizes run on the same weights.
"""

from contextlib import nullcontext
from itertools import islice
from typing import Any, Dict, Iterator, List, Optional

import numpy as np

from data.batch_shapes import Shape, planned_shapes
from data.padding import WORK, Collator
from loop.compile_phase import compile_shapes, is_dynamic
from loop.job_trainer import JobTrainer
from loop.optimizer_step import optimizer_step
from loop.samplers import train_sampler
from measuring import memory
from measuring.meter import Meter
from measuring.step_sample import FEWEST_STEPS, Plan
from processes import ranks
from settings.job_settings import Settings

Batch = Dict[str, Any]


class FreeSteps:
    """Takes the steps that it is asked for."""

    def __init__(self, settings: Settings, trainer: JobTrainer) -> None:
        self.compiles = settings.compiler.compiles_here or settings.device_kind == "xla"
        """Whether a batch size's first steps take longer than those that follow."""
        self._settings, self._trainer = settings, trainer
        self._dynamic: Optional[bool] = None
        self._has_states = False
        # The training loop sets it for every step, and `training_step` reads it.
        trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
        for group in trainer.optimizer.param_groups:
            group["lr"] = 0.0

    def compile(self, planned: Plan) -> None:
        """Compile all that a training of this batch size would run."""
        compiler = self._settings.compiler
        if not compiler.compiles_here:
            return
        if self._dynamic is None:
            sizes = self._settings.arguments.calibration_batch_sizes
            self._dynamic = is_dynamic(self._settings, [shape for size in sizes for shape in self._shapes(size)])
            compiler.prepare(self._trainer.model, self._dynamic)
        shapes = self._shapes(planned.batch_size)
        with self._trainer.meter.phase("compile"):
            compile_shapes(self._trainer, self._trainer.model, shapes, self._settings, self._dynamic)
        compiler.warmed_up()

    def take_largest(self, planned: Plan) -> None:
        """Take a step of the largest batch, without the other processes: the model as it is, not as wrapped for them.

        With accumulated gradients a step's peak is that of its second batch, which finds gradients there; and the
        optimizer's states are there only from its first step on, so that the very first is taken twice.
        """
        batch = self._collated(planned, planned.largest)
        for _ in range(1 if self._has_states else 2):
            for _ in range(min(self._settings.arguments.gradient_accumulation_steps, 2)):
                self._forward_and_backward(batch, self._trainer.model)
            optimizer_step(self._trainer)
        self._has_states = True

    def warm_up(self, planned: Plan) -> None:
        """Take the first steps that will be measured, all processes together."""
        if self._settings.device_kind != "xla":
            self.take(planned, planned.sample(), FEWEST_STEPS, None)
            return
        with self._trainer.meter.phase("compile"):
            self.take(planned, planned.sample(), FEWEST_STEPS, None)

    def take(self, planned: Plan, sample: Iterator[int], count: int, meter: Optional[Meter]) -> List[int]:
        """Take as many steps of the sample, told to the meter; return their numbers."""
        numbers = list(islice(sample, count))
        steps: Any = (self._batches(planned, number) for number in numbers)
        if self._trainer.args.dataloader_num_workers > 0:
            # Others make the batches while the device computes; elsewhere making them is part of the step.
            steps = list(steps)
        if meter is not None:
            meter.begin_steps()
        for batches in steps:
            self._take_one(batches)
            if meter is not None:
                meter.end_step()
        return numbers

    def let_go(self) -> None:
        """Give back the memory of a step that did not come to its end."""
        self._trainer.model_wrapped.zero_grad(set_to_none=True)
        memory.forget_peak(self._settings.device_kind)

    def _take_one(self, batches: List[Batch]) -> None:
        model = self._trainer.model_wrapped
        with model.no_sync() if hasattr(model, "no_sync") else nullcontext():
            for batch in batches[:-1]:
                self._forward_and_backward(batch, model)
        self._forward_and_backward(batches[-1], model)
        optimizer_step(self._trainer)

    def _forward_and_backward(self, batch: Batch, model: Any) -> None:
        device = self._trainer.args.device
        moved = {name: value if name == WORK else value.to(device) for name, value in batch.items()}
        self._trainer.training_step(model, moved)

    def _batches(self, planned: Plan, step: int) -> List[Batch]:
        return [self._collated(planned, rows) for rows in planned.batches(step, ranks.rank())]

    def _collated(self, planned: Plan, numbers: np.ndarray) -> Batch:
        settings = self._settings
        collator = Collator(settings.padding, settings.train.facts, settings.task.targets, planned.batch_size)
        return collator([settings.train.rows[int(number)] for number in numbers])

    def _shapes(self, size: int) -> List[Shape]:
        order, lengths = train_sampler(self._settings, size).order(0), self._settings.train.rows.lengths
        return planned_shapes([order], lengths, size, len(order), self._settings.padding)
