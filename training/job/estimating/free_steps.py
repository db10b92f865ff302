"""Take optimizer steps of any batch size outside of Trainer's loop, just before its first step.

These are the same steps as in training, weight update included, on batches that the training would use. Only the
learning rate is 0: the weights do not change, so that every batch size runs on the same weights.
"""

from contextlib import nullcontext
from itertools import islice
from typing import Any, Dict, Iterator, List, Optional

import numpy as np
import torch
from transformers import Trainer

from data.batch_shapes import Shape, planned_shapes
from data.padding import Collator
from loop.compile_phase import compile_shapes, is_dynamic
from loop.job_trainer import JobTrainer
from loop.samplers import train_sampler
from measuring import memory
from measuring.meter import Meter
from measuring.step_sample import MIN_STEPS, Plan
from processes import ranks
from settings.job_settings import Settings

Batch = Dict[str, Any]


class FreeSteps:
    """Takes steps of a given batch size, outside of Trainer's loop."""

    def __init__(self, settings: Settings, trainer: JobTrainer) -> None:
        self.compiles = settings.compiler.compiles_here or settings.device_kind == "xla"
        """True if the first steps of a batch size take longer than the later ones."""
        self._settings, self._trainer = settings, trainer
        self._dynamic: Optional[bool] = None
        self._has_states = False
        # `training_step` reads this value, which Trainer's loop sets before every step.
        trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
        for group in trainer.optimizer.param_groups:
            group["lr"] = 0.0

    def compile(self, planned: Plan) -> None:
        """Compile everything that a training of this batch size would run."""
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
        compiler.mark_warm()

    def take_with_largest_batch(self, planned: Plan) -> None:
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

    def warm_up(self, planned: Plan) -> None:
        """Take steps that are not measured, in all processes together."""
        if self._settings.device_kind != "xla":
            self.take(planned, planned.sample(), MIN_STEPS, None)
            return
        with self._trainer.meter.phase("compile"):
            self.take(planned, planned.sample(), MIN_STEPS, None)

    def take(self, planned: Plan, sample: Iterator[int], count: int, meter: Optional[Meter]) -> List[int]:
        """Take the next `count` steps of the sample, time them with the meter, and return their step numbers."""
        numbers = list(islice(sample, count))
        steps: Any = (self._batches(planned, number) for number in numbers)
        if self._trainer.args.dataloader_num_workers > 0:
            # With data workers, batches are prepared while the device computes, so their preparation is not timed.
            # Without, it is part of the step.
            steps = list(steps)
        if meter is not None:
            meter.begin_steps()
        for batches in steps:
            self._take_one(batches)
            if meter is not None:
                meter.end_step()
        return numbers

    def release_memory(self) -> None:
        """Free the memory of a step that failed halfway."""
        self._trainer.model_wrapped.zero_grad(set_to_none=True)
        memory.reset_peak(self._settings.device_kind)

    def _take_one(self, batches: List[Batch]) -> None:
        model = self._trainer.model_wrapped
        with model.no_sync() if hasattr(model, "no_sync") else nullcontext():
            for batch in batches[:-1]:
                self._forward_and_backward(batch, model)
        self._forward_and_backward(batches[-1], model)
        optimizer_step(self._trainer)

    def _forward_and_backward(self, batch: Batch, model: Any) -> None:
        device = self._trainer.args.device
        moved = {name: value.to(device) if hasattr(value, "to") else value for name, value in batch.items()}
        self._trainer.training_step(model, moved)

    def _batches(self, planned: Plan, step: int) -> List[Batch]:
        return [self._collated(planned, rows) for rows in planned.batches(step, ranks.rank())]

    def _collated(self, planned: Plan, numbers: np.ndarray) -> Batch:
        settings = self._settings
        collator = Collator(settings.padding, settings.train.metadata, settings.task.targets, planned.batch_size)
        return collator([settings.train.rows[int(number)] for number in numbers])

    def _shapes(self, size: int) -> List[Shape]:
        order, lengths = train_sampler(self._settings, size).order(0), self._settings.train.rows.lengths
        return planned_shapes([order], lengths, size, len(order), self._settings.padding)


def optimizer_step(trainer: Any) -> None:
    """Update the weights as the installed version of Trainer does: clip the gradients, step, clear the gradients."""
    accelerator, scaler = getattr(trainer, "accelerator", None), getattr(trainer, "scaler", None)
    optimizer, model, norm = trainer.optimizer, trainer.model_wrapped, trainer.args.max_grad_norm
    if scaler is not None:
        scaler.unscale_(optimizer)
    if norm > 0 and hasattr(Trainer, "_clip_grad_norm"):
        trainer._clip_grad_norm(model)
    elif norm > 0:
        clip = accelerator.clip_grad_norm_ if accelerator else torch.nn.utils.clip_grad_norm_
        clip(model.parameters(), norm)
    if scaler is not None:
        scaler.step(optimizer)
        scaler.update()
    elif trainer.args.device.type == "xla" and accelerator is None:
        import torch_xla.core.xla_model as xm

        xm.optimizer_step(optimizer)
    else:
        optimizer.step()
    model.zero_grad()
