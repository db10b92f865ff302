"""Tells events as Trainer goes along, and keeps the meter informed."""

from typing import Any, Callable, Dict, Optional

from transformers import TrainerCallback

from data.sampler import TrainSampler
from loop.job_trainer import EvaluationLeft, JobTrainer
from processes import ranks
from processes.signals import StopRequest
from reporting.events import Events


class Reporter(TrainerCallback):  # type: ignore[misc]
    """Called by Trainer at every turn."""

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
        """What Trainer says of the whole training, such as `train_runtime`."""
        self.last_evaluation: Dict[str, float] = {}
        """What the last evaluation logged."""
        self.evaluated_at_step = -1
        """Step of the last evaluation."""
        self.is_quiet = False
        """Set while an evaluation is made again, of weights that were told of."""
        self._trainer, self._sampler, self._events, self._stop = trainer, sampler, events, stop
        self._before_first_step, self._saves = before_first_step, saves
        self._epoch: Optional[int] = None
        self._steps_told = 0
        self._is_leaving = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Compile, then start the meter."""
        self._before_first_step()
        if self._trainer.owes_evaluation:
            self._trainer.evaluate()
        if self._saves and ranks.can_agree():
            self._stop.finish_steps()
        self._trainer.meter.begin_steps()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Choose the epoch's order; not all versions of Trainer do."""
        self._epoch = int(state.epoch or 0) if self._epoch is None else self._epoch + 1
        self._sampler.set_epoch(self._epoch)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Take the step's time; see to it that the last loss is logged, and that a stopped job saves."""
        meter = self._trainer.meter
        meter.end_step()
        if state.global_step >= state.max_steps or self._trainer.is_at_target:
            meter.end_steps()
            control.should_log = True
        if self._stop.is_due():
            self._trainer.owes_evaluation = control.should_evaluate
            control.should_evaluate = control.should_save = False
            control.should_training_stop = self._is_leaving = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Save the checkpoint of a stopped job; Trainer comes here from whatever step it leaves."""
        if self._is_leaving:
            self._events.emit("note", message=f"SIGTERM: saving a checkpoint at step {state.global_step}")
            self._trainer.owes_evaluation |= control.should_evaluate and float(state.epoch).is_integer()
            control.should_evaluate, control.should_save = False, True

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Leave an evaluation when the job is to stop."""
        if self._stop.is_due():
            raise EvaluationLeft

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Optional[Dict[str, float]] = None, **_: Any
    ) -> None:
        """Remember what the evaluation of this step found."""
        self.evaluated_at_step = state.global_step
        self.last_evaluation = {name: value for name, value in (metrics or {}).items() if name != "epoch"}
        best = self._trainer.keeper.best
        if best is not None and not self.is_quiet:
            best.observe(self.last_evaluation, state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, Any]] = None, **_: Any) -> None:
        """Print Trainer's line and tell the event."""
        if self.is_quiet:
            return
        values = {name: value for name, value in (logs or {}).items() if name not in ("epoch", "total_flos")}
        if state.is_world_process_zero:
            print({**values, "epoch": state.epoch, **_rounded_loss(values)}, flush=True)
        if "train_runtime" in values:
            self.summary = values
            return
        self._look_at_target(values, control)
        if "loss" in values:
            values["step_seconds"] = self._step_seconds()
        self._events.emit(
            "metric", step=state.global_step, epoch=state.epoch, samples=self._trainer.samples_seen, values=values
        )

    def _look_at_target(self, values: Dict[str, Any], control: Any) -> None:
        """Take note of a target that is reached; end the training there where it is to end with it.

        All processes come here with the same values: the losses and predictions of all were gathered.
        """
        target = self._trainer.keeper.target
        if target is None:
            return
        target.observe(values, self._trainer.elapsed_seconds(), self._trainer.samples_seen)
        if target.is_end:
            control.should_training_stop = True
            if "loss" in values:
                self._trainer.meter.end_steps()

    def _step_seconds(self) -> float:
        """Return the mean time of the steps since the last loss; reading the loss has waited for the device."""
        seconds = self._trainer.meter.step_seconds()
        latest, self._steps_told = seconds[self._steps_told :], len(seconds)
        return sum(latest) / max(len(latest), 1)


def _rounded_loss(values: Dict[str, Any]) -> Dict[str, float]:
    """Return the loss with four digits, as Trainer printed it when the metric expressions of others were written."""
    return {"loss": round(values["loss"], 4)} if "loss" in values else {}
