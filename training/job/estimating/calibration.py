"""Calibration: a few steps at each of several batch sizes, in one process, to tell how long they take and what fits.

Sizes go up, and the first that does not fit in memory is the last that is tried.
"""

from typing import Any, Dict, Optional

from estimating.free_steps import FreeSteps
from estimating.probe import evaluation_share
from loop.job_trainer import JobTrainer
from loop.samplers import train_sampler
from measuring import memory, result_metrics
from measuring.clocks import clock_for
from measuring.meter import Meter
from measuring.step_sample import FEWEST_STEPS, Plan, mean_step, plan, steps_to_measure
from processes import ranks
from reporting.events import Events
from reporting.failure import failure_class
from settings.job_settings import Settings


class Calibrated(Exception):
    """Leaves Trainer's loop before its first step, with what was measured."""

    def __init__(self, metrics: Dict[str, Any]) -> None:
        super().__init__()
        self.metrics = metrics


def calibrate(settings: Settings, trainer: JobTrainer, events: Events) -> Dict[str, Any]:
    """Tell a `metric` event for each batch size, with the size for a step; return the metrics of the result."""
    if settings.device_kind == "cpu":
        memory.hold_to_free_memory(ranks.count_here())
    calibration, clock = Calibration(settings, trainer), clock_for(settings.device_kind)
    start, largest, fits = clock.now(), 0, True
    for size in settings.arguments.calibration_batch_sizes:
        values = calibration.measured(size) if fits else None
        fits = values is not None
        largest = size if fits else largest
        told = {"fits": 1, **values} if values is not None else {"fits": 0, "steps": 0}
        events.emit("metric", step=size, values={f"calibration/{name}": value for name, value in told.items()})
    found = {"calibration/largest_batch_size": largest, "calibration/seconds": clock.now() - start}
    found["calibration/eval_seconds"] = calibration.evaluation_seconds()
    return {**found, **settings.compiler.metrics(), **result_metrics.time_metrics(trainer.meter.phase_seconds)}


class Calibration:
    """Measures one batch size after the other."""

    def __init__(self, settings: Settings, trainer: JobTrainer) -> None:
        self._settings, self._trainer = settings, trainer
        self._steps = FreeSteps(settings, trainer)
        # A GPU chooses kernels at a shape's first step, and processes connect; XLA compiles.
        self._warms_up = settings.device_kind != "cpu" or settings.processes > 1

    def measured(self, size: int) -> Optional[Dict[str, float]]:
        """Return what the steps of a batch size take, or None where they do not fit in memory.

        Of several processes each first sees for itself whether it has the memory: one that ran out while the others
        wait for its gradients would leave them waiting.
        """
        memory.forget_peak(self._settings.device_kind)
        planned, alone = self._plan(size), self._settings.processes == 1
        compiled_before = self._compile_seconds()
        values = self._unless_out_of_memory(planned, measures=alone)
        if not self._all(values is not None):
            self._steps.let_go()
            return None
        if values is None or not alone:
            values = self._timed(planned)
        peak = memory.peak_gib(self._settings.device_kind)
        values["peak_memory_gib"] = max(ranks.gathered(peak)) if ranks.can_agree() else peak
        if self._steps.compiles:
            values["compile_seconds"] = self._compile_seconds() - compiled_before
        return values

    def evaluation_seconds(self) -> float:
        """Return how long one evaluation of all rows would take, told from a sample of them."""
        before = 0.0
        for _ in range(2 if self._warms_up else 1):
            before = self._trainer.meter.phase_seconds.get("eval", 0.0)
            self._trainer.evaluate()
        return (self._trainer.meter.phase_seconds["eval"] - before) * evaluation_share(self._settings)

    def _plan(self, size: int) -> Plan:
        settings = self._settings
        order, lengths = train_sampler(settings, size).order(0), settings.train.rows.lengths
        batches_a_step = settings.arguments.gradient_accumulation_steps * settings.processes
        return plan(order, lengths, size, batches_a_step, settings.processes, settings.padding)

    def _unless_out_of_memory(self, planned: Plan, measures: bool) -> Optional[Dict[str, float]]:
        """Take the largest step there is, and measure the others; None where the memory does not suffice."""
        try:
            self._steps.compile(planned)
            self._steps.take_largest(planned)
            return self._timed(planned) if measures else {}
        except Exception as error:
            if failure_class(error) != "OutOfMemory":
                raise
        return None

    def _timed(self, planned: Plan) -> Dict[str, float]:
        if self._warms_up:
            self._steps.warm_up(planned)
        meter, sample = Meter(clock_for(self._settings.device_kind), 0), planned.sample()
        taken = self._steps.take(planned, sample, FEWEST_STEPS, meter)
        wanted = steps_to_measure(meter.step_seconds(), self._settings.arguments.calibration_seconds)
        wanted = ranks.gathered(wanted)[0] if ranks.can_agree() else FEWEST_STEPS
        taken += self._steps.take(planned, sample, wanted - FEWEST_STEPS, meter)
        found = mean_step(meter.step_seconds(), planned.positions[taken], float(planned.positions.mean()))
        return {
            "step_seconds": found.seconds,
            "step_seconds_low": found.low,
            "step_seconds_high": found.high,
            "steps": len(taken),
            "samples_per_second": planned.rows_a_step / found.seconds,
        }

    def _all(self, fits: bool) -> bool:
        """Tell whether it fits for every process; those of XLA are alike."""
        if not ranks.can_agree():
            return fits
        return ranks.sum_over_processes([float(fits)], self._trainer.args.device)[0] == ranks.count()

    def _compile_seconds(self) -> float:
        return self._trainer.meter.phase_seconds.get("compile", 0.0)
