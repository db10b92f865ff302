"""Emit events and update the meter as Trainer advances."""

from typing import Any, Callable, Dict, Optional

from transformers import TrainerCallback

from training.job.data.sampler import TrainSampler
from training.job.loop.job_trainer import EvaluationAborted, JobTrainer
from training.job.processes import ranks
from training.job.processes.signals import StopRequest
from training.job.reporting.events import Events


class Reporter(TrainerCallback):  # type: ignore[misc]
    """Callback that reports the training, updates the meter and stops the training on request."""

    def __init__(
        self,
        trainer: JobTrainer,
        sampler: TrainSampler,
        events: Events,
        stop: StopRequest,
        before_first_step: Callable[[], None],
        saves: bool,
    ) -> None:
        self.summary: Dict[str, float] = {}
        """Metrics that Trainer logs for the whole training, such as `train_runtime`."""
        self.last_evaluation: Dict[str, float] = {}
        """Metrics of the last evaluation."""
        self.evaluated_at_step = -1
        """Step of the last evaluation."""
        self.is_quiet = False
        """True during an evaluation or calibration whose metrics must not be reported."""
        self._trainer, self._sampler, self._events, self._stop = trainer, sampler, events, stop
        self._before_first_step, self._saves = before_first_step, saves
        self._epoch: Optional[int] = None
        self._steps_logged = 0
        self._is_leaving = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Compile, then start the meter."""
        self._before_first_step()
        if self._trainer.owes_evaluation:
            self._trainer.evaluate()
        if self._saves and ranks.can_exchange_flags():
            self._stop.allow_finishing_step()
        self._trainer.meter.begin_steps()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Select the epoch's row order. Not all versions of Trainer do this."""
        self._epoch = int(state.epoch or 0) if self._epoch is None else self._epoch + 1
        self._sampler.set_epoch(self._epoch)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
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

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Save the checkpoint of a stopped job. Trainer calls this after the last step, even within an epoch."""
        if self._is_leaving:
            self._events.emit("note", message=f"SIGTERM: saving a checkpoint at step {state.global_step}")
            self._trainer.owes_evaluation |= control.should_evaluate and float(state.epoch).is_integer()
            control.should_evaluate, control.should_save = False, True

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Abort the evaluation when the job has to stop."""
        if self._stop.should_stop():
            raise EvaluationAborted

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Optional[Dict[str, float]] = None, **_: Any
    ) -> None:
        """Record the metrics of this step's evaluation."""
        self.evaluated_at_step = state.global_step
        self.last_evaluation = {name: value for name, value in (metrics or {}).items() if name != "epoch"}
        best = self._trainer.keeper.best
        if best is not None and not self.is_quiet:
            best.observe(self.last_evaluation, state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, Any]] = None, **_: Any) -> None:
        """Print Trainer's log line and emit the event."""
        if self.is_quiet:
            return
        values = {name: value for name, value in (logs or {}).items() if name not in ("epoch", "total_flos")}
        if state.is_world_process_zero:
            print({**values, "epoch": state.epoch, **_rounded_loss(values)}, flush=True)
        if "train_runtime" in values:
            self.summary = values
            return
        self._check_target(values, control)
        if "loss" in values:
            values["step_seconds"] = self._step_seconds()
        self._events.emit(
            "metric", step=state.global_step, epoch=state.epoch, samples=self._trainer.samples_seen, values=values
        )

    def _check_target(self, values: Dict[str, Any], control: Any) -> None:
        """Record whether the target is reached, and end the training if `target_stop` is set.

        All processes call this with the same values, because losses and predictions are gathered from all processes.
        """
        target = self._trainer.keeper.target
        if target is None:
            return
        target.observe(values, self._trainer.elapsed_seconds(), self._trainer.samples_seen)
        if target.ends_training:
            control.should_training_stop = True
            if "loss" in values:
                self._trainer.meter.end_steps()

    def _step_seconds(self) -> float:
        """Return the mean step time since the last logged loss. Reading the loss has waited for the device."""
        seconds = self._trainer.meter.step_seconds()
        latest, self._steps_logged = seconds[self._steps_logged :], len(seconds)
        return sum(latest) / max(len(latest), 1)


def _rounded_loss(values: Dict[str, Any]) -> Dict[str, float]:
    """Return the loss with four decimals: existing metric expressions expect this format."""
    return {"loss": round(values["loss"], 4)} if "loss" in values else {}
