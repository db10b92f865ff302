"""Hugging Face's Trainer, extended to measure and report the training, and to write complete checkpoints."""

import math
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader
from transformers import EvalPrediction, PreTrainedModel, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME
from transformers.trainer_callback import PrinterCallback, TrainerControl, TrainerState
from transformers.trainer_utils import EvalLoopOutput

from training.job.data.channels import Rows
from training.job.data.padding import (
    IS_COMPLETE,
    IS_PADDED,
    LABELS,
    NO_WORK,
    WORK,
    Collator,
    EvalSampler,
    TrainSampler,
)
from training.job.loop import sharding
from training.job.loop.attention_masks import AttentionMasks
from training.job.loop.prepared_model import in_16_bits, whole_vocabulary
from training.job.loop.text_generation import TextGenerator
from training.job.measuring.hardware import process_age_seconds
from training.job.measuring.meter import Meter
from training.job.processes import ranks
from training.job.processes.ranks import StopRequest
from training.job.processes.reporting import CheckpointNotWritten, Diverged, Events, failure_class
from training.job.settings.job_settings import Settings
from training.job.tasks.own_quality import TRIED_ROWS
from training.job.tasks.task import COMMONEST, UNTRAINED, Scorer, TextScorer
from training.job.weights import adapters
from training.job.weights.checkpoints import CheckpointKeeper, checkpoint_path

NOT_REPORTED = ("epoch", "total_flos", "eval_model_preparation_time")
"""Values in Trainer's log that are no metrics. It adds the last one only if a training resumes after its last step."""


class EvaluationAborted(Exception):
    """An evaluation was aborted because the job has to stop."""


class JobTrainer(Trainer):  # type: ignore[misc]
    """Trainer with our row order, work counts, timed evaluations and complete checkpoints."""

    data_collator: Collator

    def __init__(self, settings: Settings, model: PreTrainedModel, meter: Meter, keeper: CheckpointKeeper) -> None:
        arguments, task, evaluated = settings.arguments, settings.task, settings.evaluated
        self.settings, self.meter, self.keeper, self.compiler = settings, meter, keeper, settings.compiler
        self._shards, self._is_sharded = arguments.sharding != "none", False
        # Only text generation needs the cache of keys and values. Newer versions of Trainer disable it themselves, but
        # then save a model that generates slowly.
        self._use_cache = getattr(model.config, "use_cache", None)
        self.sampler, self._masks = train_sampler(settings), AttentionMasks(model)
        scorer = task.scorer(evaluated)
        self.scorer = None if settings.evaluates_sample else scorer
        self._generator = TextGenerator(scorer, settings) if isinstance(scorer, TextScorer) else None
        self.quality = settings.quality
        self._eval_collator = Collator(settings.eval_padding, settings.validation.metadata, task.targets)
        super().__init__(
            model=model,
            args=trainer_arguments(settings),
            data_collator=Collator(settings.padding, settings.train.metadata, task.targets, arguments.batch_size),
            train_dataset=settings.train.rows,
            eval_dataset=evaluated.rows,
            compute_metrics=self.scorer and self._metrics_of(self.scorer),
            preprocess_logits_for_metrics=task.reduce_predictions,
        )
        # One process drives one device. Without this, Trainer would use all visible GPUs in a single process.
        self.args._n_gpu = min(self.args.n_gpu, 1)
        if settings.unfinished_checkpoints and self.is_world_process_zero():
            # Remove an unfinished checkpoint of an earlier start, and the empty folder that Trainer creates.
            shutil.rmtree(settings.unfinished_checkpoints, ignore_errors=True)
        self._set_use_cache(False)
        self.samples_seen, self.tokens_seen = keeper.earlier_progress.samples, keeper.earlier_progress.tokens
        self.owes_evaluation = keeper.earlier_progress.owes_evaluation
        """True if the current step still has to be evaluated."""
        self._saved_step = keeper.earlier_progress.step
        # If this is True, Trainer lets the model divide its loss by the labels of a step. Classifiers do not divide, so
        # gradients would be too large with gradient accumulation. `get_batch_samples` weighs the batches of all models.
        self.model_accepts_loss_kwargs = False
        self._weights: list[torch.Tensor] = []
        """Weights of the step's batches to come, if it has several; 1 on average."""
        self.remove_callback(PrinterCallback)

    @property
    def is_at_target(self) -> bool:
        """True if the training must end because it has reached its target."""
        return self.keeper.target is not None and self.keeper.target.ends_training

    def elapsed_seconds(self) -> float:
        """Return the run time of the job's processes in seconds, summed over all starts."""
        return self.keeper.earlier_progress.seconds + process_age_seconds()

    def train_from(self, checkpoint: Path | None) -> None:
        """Train to the end, from a checkpoint or, with None, from the beginning."""
        if checkpoint is not None:
            state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
            if state.global_step >= state.max_steps or self.is_at_target:
                # Trainer would take one more step before it notices that the training has finished.
                self._load_from_checkpoint(str(checkpoint))
                self.state = state
                return
        self.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)

    def load_best_weights(self) -> bool:
        """Load the weights of the best evaluation unless they are the current ones. Return True if they were loaded."""
        best = self.keeper.best
        if best is None or best.step in (None, self.state.global_step):
            return False
        with self.meter.phase("load_best"):
            folder = self.keeper.best_checkpoint() if ranks.on_first_host() else None
            if self._is_sharded:
                sharding.load_weights(self.model, folder)
                return True
            if folder is not None:
                self._load_from_checkpoint(str(folder))
            ranks.broadcast_weights(self.model)
        return True

    def create_optimizer(self, *args: object, **kwargs: object) -> torch.optim.Optimizer:
        """Create the optimizer, after sharding the model if asked: the optimizer must hold the sharded parameters."""
        if self._shards and self.optimizer is None:
            sharding.shard(self.model, self.accelerator)
            self._is_sharded = True
        optimizer: torch.optim.Optimizer = super().create_optimizer(*args, **kwargs)
        # Trainer calls both at every step. Each walks through all modules: 1 to 2 ms for 24 layers.
        self.model.train = partial(_train, self.model, self.model.train)
        self.model.zero_grad = optimizer.zero_grad
        return optimizer

    def get_batch_samples(self, *args: object, **kwargs: object) -> tuple[list[dict[str, object]], None]:
        """Return the batches of a step with their weights: a label has the same weight in whichever batch it is.

        A model's loss is the mean of its batch. Trainer averages the means, but batches may differ in their labels.
        """
        batches, _ = super().get_batch_samples(*args, **kwargs)
        processes, self._weights = self.settings.processes, []
        if len(batches) * processes > 1:
            counts = [float(batch[LABELS]) for batch in batches]
            total = self.accelerator.reduce(torch.tensor(sum(counts), device=self.args.device), "sum").clamp(min=1.0)
            self._weights = [count * len(batches) * processes / total for count in counts]
        return batches, None

    def compute_loss(self, *args: object, **kwargs: object) -> torch.Tensor:
        loss: torch.Tensor = super().compute_loss(*args, **kwargs)
        return loss * self._weights.pop(0) if self._weights else loss

    def training_step(
        self, model: PreTrainedModel, inputs: dict[str, torch.Tensor], *args: object, **kwargs: object
    ) -> torch.Tensor:
        self.meter.add_work(inputs.pop(WORK, NO_WORK))
        inputs.pop(LABELS, None)
        # A CUDA graph's gradients are in memory that the next step reuses, so a step must not begin while they exist.
        if self.compiler.marks_steps and all(
            each.grad is None for group in self.optimizer.param_groups for each in group["params"]
        ):
            self.compiler.begin_step()
        # A program for the last rows of an epoch would take longer to compile than it saves.
        is_complete = inputs.pop(IS_COMPLETE, True)
        with self._masks.of_batch(inputs.pop(IS_PADDED, None)), nullcontext() if is_complete else self.compiler.eager():
            return super().training_step(model, inputs, *args, **kwargs)

    def floating_point_ops(self, inputs: object) -> int:
        """Return 0: Trainer would count all parameters at every step for a number that nobody reads."""
        return 0

    def evaluate(self, *args: object, **kwargs: object) -> dict[str, float]:
        """Evaluate without the compiler and without 8-bit products, timed as the phase `eval`. Restore random states.

        Return an empty dictionary if the job has to stop; Trainer then saves a checkpoint and stops.
        """
        with self.meter.phase("eval"), self.compiler.eager(), in_16_bits(self.model), preserve_random_states():
            try:
                metrics = dict(super().evaluate(*args, **kwargs))
            except EvaluationAborted:
                metrics = {}
        if self.is_at_target:
            # This evaluation reached the target: Trainer's loop takes no further step.
            self.meter.end_steps()
        self.owes_evaluation = not metrics
        if self.owes_evaluation:
            self.control.should_save = self.control.should_training_stop = True
        return metrics

    def try_quality(self) -> None:
        """Score some rows with the user's own function, so that its errors show before the training.

        Raises `ArgumentError`.
        """
        channel, logged, generator = self.settings.evaluated, len(self.state.log_history), self._generator
        sample = replace(channel, rows=channel.rows.sample(TRIED_ROWS))
        scorer = self.settings.task.scorer(sample)
        self.compute_metrics = self._metrics_of(scorer)
        self._generator = TextGenerator(scorer, self.settings) if isinstance(scorer, TextScorer) else None
        with suppress(EvaluationAborted), self.compiler.eager(), in_16_bits(self.model), preserve_random_states():
            super().evaluate(sample.rows)
        assert self.scorer, "without a scorer there is no quality function"
        self.compute_metrics, self._generator = self._metrics_of(self.scorer), generator
        del self.state.log_history[logged:]

    def _metrics_of(self, scorer: Scorer) -> Callable[[EvalPrediction], dict[str, float]]:
        """Return the function that scores an evaluation, with the user's own metrics if any."""
        quality = self.quality

        def with_own(prediction: EvalPrediction) -> dict[str, float]:
            metrics = dict(scorer(prediction))
            return {**metrics, **(quality(scorer.rows(), metrics) if quality else {})}

        return with_own

    def evaluation_loop(self, *args: object, **kwargs: object) -> EvalLoopOutput:
        """Generate the texts that the scorer needs, then evaluate."""
        if self._generator:

            def after_batch() -> None:
                self.callback_handler.on_prediction_step(self.args, self.state, self.control)

            self.model.eval()
            if self._is_sharded:
                self.model.unshard()  # generate() also runs the encoder alone, which does not gather shared embeddings
            with self.compute_loss_context_manager():
                self._generator.run(self.model, self.args.device, after_batch, synced_gpus=self._is_sharded)
        return super().evaluation_loop(*args, **kwargs)

    def save_model(self, *args: object, **kwargs: object) -> None:
        """Save the model with `use_cache` as it was before training."""
        self._set_use_cache(self._use_cache)
        if self._is_sharded:
            # All processes gather, and one writes.
            weights = sharding.gathered_weights(self.model)
            if self.args.should_save:
                super()._save(*args[:1], state_dict=weights)
        else:
            with whole_vocabulary(self.model):
                super().save_model(*args, **kwargs)
        self._set_use_cache(False)

    def log(self, logs: dict[str, float], *args: object, **kwargs: object) -> None:
        self._count_samples()
        super().log(logs, *args, **kwargs)

    def get_eval_dataloader(self, *args: object, **kwargs: object) -> DataLoader:
        training, self.data_collator = self.data_collator, self._eval_collator
        try:
            return super().get_eval_dataloader(*args, **kwargs)
        finally:
            self.data_collator = training

    def _save(self, output_dir: str | None = None, *args: object, **kwargs: object) -> None:
        if adapters.is_attached(self.model):
            adapters.save(self.model, Path(output_dir or self.args.output_dir))
        else:
            super()._save(output_dir, *args, **kwargs)

    def _load_from_checkpoint(self, checkpoint: str, *args: object, **kwargs: object) -> None:
        if adapters.is_attached(self.model):
            adapters.load(self.model, Path(checkpoint))
            return
        with whole_vocabulary(self.model):
            super()._load_from_checkpoint(checkpoint, *args, **kwargs)

    def _get_train_sampler(self, *_: object) -> TrainSampler:
        return self.sampler

    def _get_eval_sampler(self, rows: Rows) -> EvalSampler:
        return EvalSampler(len(rows), self.settings.arguments.eval_batch_size, self.settings.processes)

    def _save_checkpoint(self, *args: object, **kwargs: object) -> None:
        """Save a checkpoint, at most once a step, and let `keeper` move it into the checkpoint folder."""
        if self._saved_step == self.state.global_step:
            return
        self._saved_step = self.state.global_step
        with self.meter.phase("checkpoint"):
            try:
                super()._save_checkpoint(*args, **kwargs)
            except Exception as error:
                if failure_class(error) == "OutOfMemory":
                    raise
                reason = str(error).strip().splitlines() or [type(error).__name__]
                raise CheckpointNotWritten(
                    f"cannot write the checkpoint of step {self._saved_step} in {self.keeper.folder}: {reason[0]}"
                ) from error
            self._count_samples()
            # Every process has written its random states.
            ranks.gather_random_states(checkpoint_path(Path(self.args.output_dir), self._saved_step))
            if self.is_world_process_zero():
                seen = (self.samples_seen, self.tokens_seen)
                self.keeper.keep(self.state.global_step, *seen, self.elapsed_seconds(), self.owes_evaluation)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if not self._is_sharded:
            super()._save_optimizer_and_scheduler(output_dir)
            return
        states = sharding.gathered_states(self.model, self.optimizer)
        if self.args.should_save:
            torch.save(states, Path(output_dir) / OPTIMIZER_NAME)
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / SCHEDULER_NAME)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None or not self._is_sharded:
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        read = partial(torch.load, map_location="cpu", weights_only=True, mmap=True)
        sharding.load_states(self.model, self.optimizer, read(Path(checkpoint) / OPTIMIZER_NAME))
        self.lr_scheduler.load_state_dict(read(Path(checkpoint) / SCHEDULER_NAME))

    def _move_model_to_device(self, model: PreTrainedModel, device: torch.device) -> None:
        """Leave a model that will be sharded in the CPU's memory. Its parts are moved one layer after the other."""
        if not self._shards:
            super()._move_model_to_device(model, device)

    def _set_use_cache(self, use_cache: bool | None) -> None:
        if self._use_cache is not None:
            self.model.config.use_cache = use_cache

    def _count_samples(self) -> None:
        samples, tokens = map(int, ranks.sum_over_processes(self.meter.work[:2], self.args.device))
        earlier = self.keeper.earlier_progress
        self.samples_seen, self.tokens_seen = earlier.samples + samples, earlier.tokens + tokens


def _train(model: torch.nn.Module, whole: Callable[[bool], object], mode: bool = True) -> torch.nn.Module:
    """Set the mode of all modules, unless the model is in training mode already."""
    if not (mode and model.training):
        whole(mode)
    return model


def train_sampler(settings: Settings, batch_size: int | None = None) -> TrainSampler:
    """Return the sampler of the training rows. `batch_size` replaces the settings' batch size."""
    arguments = settings.arguments
    return TrainSampler(
        settings.train.rows.lengths,
        batch_size or arguments.batch_size,
        settings.processes,
        arguments.seed,
        grouped=arguments.length_grouping and settings.padding.kind != "max_length",
        drops_last=arguments.drop_last,
    )


class Reporter(TrainerCallback):  # type: ignore[misc]
    """Callback that reports the training, updates the meter and stops the training on request."""

    def __init__(
        self, trainer: JobTrainer, events: Events, stop: StopRequest, before_first_step: Callable[[], None]
    ) -> None:
        self.summary: dict[str, float] = {}
        """Metrics that Trainer logs for the whole training, such as `train_runtime`."""
        self.last_evaluation: dict[str, float] = {}
        """Metrics of the last evaluation."""
        self.scores_untrained: dict[str, float] = {}
        """Scores of the pretrained model, under their names with `UNTRAINED`."""
        self.evaluated_at_step = -1
        """Step of the last evaluation."""
        self.is_quiet = False
        """True during an evaluation or calibration whose metrics must not be reported."""
        self._trainer, self._events, self._stop, self._before_first_step = trainer, events, stop, before_first_step
        self._epoch: int | None = None
        self._steps_logged = 0
        self._is_leaving = False

    def on_train_begin(self, args: object, state: TrainerState, control: TrainerControl, **_: object) -> None:
        if self._trainer.quality:
            self.is_quiet = True
            self._trainer.try_quality()
            self.is_quiet, self.evaluated_at_step = False, -1
        self._before_first_step()
        settings = self._trainer.settings
        if self._trainer.owes_evaluation:
            self._trainer.evaluate()
        elif settings.task.scores_untrained and state.global_step == 0 and not settings.evaluates_sample:
            self._score_untrained()
        if self._trainer.settings.saves:
            self._stop.allow_finishing_step()
        self._trainer.meter.begin_steps()

    def _score_untrained(self) -> None:
        """Evaluate the pretrained model. It is no evaluation of the training: no target is reached, nothing is kept."""
        self.is_quiet = True
        values = self._trainer.evaluate()
        self.is_quiet, self.evaluated_at_step, self.last_evaluation = False, -1, {}
        names = [metric.name for metric in self._trainer.settings.task.metrics if metric.name in values]
        if not names:  # the job has to stop
            return
        self.scores_untrained = {name + UNTRAINED: values[name] for name in names}
        scores = ", ".join(f"{name} {values[name]:.4f}" for name in names)
        self._events.emit("note", message=f"before training: {scores}")

    def on_epoch_begin(self, args: object, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """Select the epoch's row order. Not all versions of Trainer do this."""
        self._epoch = int(state.epoch or 0) if self._epoch is None else self._epoch + 1
        self._trainer.sampler.set_epoch(self._epoch)

    def on_step_end(self, args: object, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """Time the step, and make Trainer log the last loss.

        If the job has to stop, end the training: `on_epoch_end` then saves the checkpoint.
        """
        meter = self._trainer.meter
        meter.end_step()
        if state.global_step >= state.max_steps or self._trainer.is_at_target:
            meter.end_steps()
            control.should_log = True
        if self._stop.should_stop():
            self._trainer.owes_evaluation = control.should_evaluate
            control.should_evaluate = control.should_save = False
            control.should_training_stop = self._is_leaving = True

    def on_epoch_end(self, args: object, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """Save the checkpoint of a stopped job. Trainer calls this after the last step, even within an epoch."""
        if self._is_leaving:
            self._events.emit("note", message=f"SIGTERM: saving a checkpoint at step {state.global_step}")
            self._trainer.owes_evaluation |= control.should_evaluate and float(state.epoch).is_integer()
            control.should_evaluate, control.should_save = False, True

    def on_prediction_step(self, args: object, state: TrainerState, control: TrainerControl, **_: object) -> None:
        if self._stop.should_stop():
            raise EvaluationAborted

    def on_evaluate(
        self, args: object, state: TrainerState, control: TrainerControl, metrics: dict[str, float], **_: object
    ) -> None:
        self.evaluated_at_step = state.global_step
        self.last_evaluation = {name: value for name, value in metrics.items() if name not in NOT_REPORTED}
        best = self._trainer.keeper.best
        if best is not None and not self.is_quiet:
            best.observe(self.last_evaluation, state.global_step)

    def on_log(
        self, args: object, state: TrainerState, control: TrainerControl, logs: dict[str, float], **_: object
    ) -> None:
        """Print Trainer's log line and emit the event. Raise `Diverged` if a loss is not finite."""
        if self.is_quiet:
            return
        reported = (name for name in logs if name not in NOT_REPORTED and not name.endswith(COMMONEST))
        values = {name: logs[name] for name in reported}
        if state.is_world_process_zero:
            # Four decimals, which existing metric expressions expect.
            loss = {"loss": round(values["loss"], 4)} if "loss" in values else {}
            print({**values, "epoch": state.epoch, **loss}, flush=True)
        if "train_runtime" in values:
            self.summary = values
            return
        if target := self._trainer.keeper.target:
            # All processes have the same values, because losses and predictions are gathered from all of them.
            target.observe(values, self._trainer.elapsed_seconds(), self._trainer.samples_seen)
            if target.ends_training:
                control.should_training_stop = True
                if "loss" in values:
                    self._trainer.meter.end_steps()
        if "loss" in values:
            # The mean since the last logged loss. Reading the loss has waited for the device.
            seconds = self._trainer.meter.step_seconds()
            latest, self._steps_logged = seconds[self._steps_logged :], len(seconds)
            values["step_seconds"] = sum(latest) / max(len(latest), 1)
        self._events.emit(
            "metric", step=state.global_step, epoch=state.epoch, samples=self._trainer.samples_seen, values=values
        )
        for name, noun in (("loss", "training"), ("eval_loss", "validation")):
            # All processes have the same values, so all end here.
            if not math.isfinite(values.get(name, 0.0)):
                raise Diverged(
                    f"the {noun} loss is {values[name]:g} at step {state.global_step:,}, so the training has diverged: "
                    "lower base_learning_rate or max_learning_rate, or raise warmup_samples"
                )


@contextmanager
def preserve_random_states() -> Iterator[None]:
    """Restore all random states on exit, so that draws inside the context have no effect on later draws."""
    python, numpy_state, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    gpu = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy_state)
        torch.set_rng_state(cpu)
        if gpu is not None:
            torch.cuda.set_rng_state(gpu)


SAME_NAME = (
    *("gradient_accumulation_steps", "learning_rate", "adam_beta1", "adam_beta2", "adam_epsilon", "weight_decay"),
    *("max_grad_norm", "seed", "logging_steps", "eval_steps"),
)
"""Arguments of Trainer that have the job's name and value."""


def trainer_arguments(settings: Settings) -> TrainingArguments:
    """Return Trainer's arguments for a job."""
    arguments, device_kind = settings.arguments, settings.device_kind
    scheduler = str(arguments.lr_scheduler)
    if scheduler == "constant" and arguments.warmup_samples:
        scheduler = "constant_with_warmup"
    return TrainingArguments(
        **{name: getattr(arguments, name) for name in SAME_NAME},
        # Trainer writes only checkpoints to this folder.
        output_dir=str(settings.unfinished_checkpoints or settings.folders.output_data),
        per_device_train_batch_size=arguments.batch_size,
        per_device_eval_batch_size=arguments.eval_batch_size,
        lr_scheduler_type=scheduler,
        warmup_steps=math.ceil(arguments.warmup_samples / settings.global_batch_size),
        # Trainer ignores the epochs if the steps are set. -1 means that they are not set.
        num_train_epochs=arguments.epochs or 1.0,
        max_steps=arguments.max_steps or -1,
        eval_strategy="no" if arguments.eval_strategy == "end" else arguments.eval_strategy,
        save_strategy="no" if arguments.save_strategy == "none" else arguments.save_strategy,
        save_steps=arguments.save_steps or 500,
        fp16=settings.precision == "fp16",
        # The layers that do not compute in 8 bits do so in bf16.
        bf16=settings.precision in ("bf16", "fp8"),
        optim="adamw_torch" if arguments.optimizer == "adamw" else "adamw_torch_fused",
        label_names=list(settings.task.label_inputs),
        dataloader_num_workers=arguments.dataloader_workers or 0,
        use_cpu=device_kind == "cpu",
        ddp_backend="gloo" if device_kind == "cpu" and settings.processes > 1 else None,
        # Pinned memory only speeds up copies to a GPU.
        dataloader_pin_memory=device_kind == "cuda",
        logging_first_step=True,
        # The filter reads the loss at every step, which waits for the device, and hides NaN losses.
        logging_nan_inf_filter=False,
        ddp_find_unused_parameters=False,
        remove_unused_columns=False,
        disable_tqdm=True,
        log_level="warning",
        report_to=[],
        # The copy of a batch to the GPU does not wait for it.
        accelerator_config={"non_blocking": True} if device_kind == "cuda" else None,
    )
