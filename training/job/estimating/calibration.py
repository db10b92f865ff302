"""Calibration: a few steps at each of several batch sizes, within one job, to measure step time and memory.

Batch sizes are tried in ascending order. Those above the first that does not fit in memory are not tried.
"""

from typing import Any, Dict, Optional

from estimating.free_steps import FreeSteps
from estimating.probe import evaluation_share
from loop.job_trainer import JobTrainer
from loop.samplers import train_sampler
from measuring import memory, result_metrics
from measuring.clocks import clock_for
from measuring.meter import Meter
from measuring.step_sample import MIN_STEPS, Plan, mean_step, plan, steps_to_measure
from processes import ranks
from reporting.events import Events
from reporting.failure import failure_class
from settings.job_settings import Settings


class CalibrationFinished(Exception):
    """Leaves Trainer's loop before the first step, with the measured metrics."""

    def __init__(self, metrics: Dict[str, Any]) -> None:
        super().__init__()
        self.metrics = metrics


def calibrate(settings: Settings, trainer: JobTrainer, events: Events) -> Dict[str, Any]:
    """Emit a `metric` event for each batch size, with the size as its step, and return the metrics of the result."""
    if settings.device_kind == "cpu":
        memory.limit_to_free_memory(ranks.local_count())
    calibration, clock = Calibration(settings, trainer), clock_for(settings.device_kind)
    start, largest, fits = clock.now(), 0, True
    for size in settings.arguments.calibration_batch_sizes:
        values = calibration.measure(size) if fits else None
        fits = values is not None
        largest = size if fits else largest
        measured = {"fits": 1, **values} if values is not None else {"fits": 0, "steps": 0}
        events.emit("metric", step=size, values={f"calibration/{name}": value for name, value in measured.items()})
    metrics = {"calibration/largest_batch_size": largest, "calibration/seconds": clock.now() - start}
    metrics["calibration/eval_seconds"] = calibration.evaluation_seconds()
    return {**metrics, **settings.compiler.metrics(), **result_metrics.time_metrics(trainer.meter.phase_seconds)}


class Calibration:
    """Measures batch sizes one after the other."""

    def __init__(self, settings: Settings, trainer: JobTrainer) -> None:
        self._settings, self._trainer = settings, trainer
        self._steps = FreeSteps(settings, trainer)
        # The first step of a shape takes longer: a GPU chooses kernels, processes connect, XLA compiles.
        self._warms_up = settings.device_kind != "cpu" or settings.processes > 1

    def measure(self, size: int) -> Optional[Dict[str, float]]:
        """Return the step time and memory of a batch size, or None if a step does not fit in memory.

        With several processes, each first takes a step alone to see if it fits. If one ran out of memory in a common
        step, the others would wait for its gradients forever.
        """
        memory.reset_peak(self._settings.device_kind)
        planned, is_single = self._plan(size), self._settings.processes == 1
        compiled_before = self._compile_seconds()
        values = self._try_largest(planned, measures=is_single)
        if not self._fits_everywhere(values is not None):
            self._steps.release_memory()
            return None
        if values is None or not is_single:
            values = self._measure_steps(planned)
        peak = memory.peak_gib(self._settings.device_kind)
        values["peak_memory_gib"] = max(ranks.gather(peak)) if ranks.can_exchange_flags() else peak
        if self._steps.compiles:
            values["compile_seconds"] = self._compile_seconds() - compiled_before
        return values

    def evaluation_seconds(self) -> float:
        """Return the seconds that evaluating all rows would take, extrapolated from a sample."""
        before = 0.0
        for _ in range(2 if self._warms_up else 1):
            before = self._trainer.meter.phase_seconds.get("eval", 0.0)
            self._trainer.evaluate()
        return (self._trainer.meter.phase_seconds["eval"] - before) * evaluation_share(self._settings)

    def _plan(self, size: int) -> Plan:
        settings = self._settings
        order, lengths = train_sampler(settings, size).order(0), settings.train.rows.lengths
        batches_per_step = settings.arguments.gradient_accumulation_steps * settings.processes
        return plan(order, lengths, size, batches_per_step, settings.processes, settings.padding)

    def _try_largest(self, planned: Plan, measures: bool) -> Optional[Dict[str, float]]:
        """Take a step with the largest batch, then measure the sampled steps. Return None when out of memory.

        Without `measures`, nothing is measured and the result is empty.
        """
        try:
            self._steps.compile(planned)
            self._steps.take_with_largest_batch(planned)
            return self._measure_steps(planned) if measures else {}
        except Exception as error:
            if failure_class(error) != "OutOfMemory":
                raise
        return None

    def _measure_steps(self, planned: Plan) -> Dict[str, float]:
        if self._warms_up:
            self._steps.warm_up(planned)
        meter, sample = Meter(clock_for(self._settings.device_kind), 0), planned.sample()
        steps = self._steps.take(planned, sample, MIN_STEPS, meter)
        count = steps_to_measure(meter.step_seconds(), self._settings.arguments.calibration_seconds)
        count = ranks.gather(count)[0] if ranks.can_exchange_flags() else MIN_STEPS
        steps += self._steps.take(planned, sample, count - MIN_STEPS, meter)
        mean = mean_step(meter.step_seconds(), planned.positions[steps], float(planned.positions.mean()))
        return {
            "step_seconds": mean.seconds,
            "step_seconds_low": mean.low,
            "step_seconds_high": mean.high,
            "steps": len(steps),
            "samples_per_second": planned.rows_per_step / mean.seconds,
        }

    def _fits_everywhere(self, fits: bool) -> bool:
        """Return True if the batch fits in every process.

        Under XLA all processes use the same memory, so `fits`, the result of this one, holds for all.
        """
        if not ranks.can_exchange_flags():
            return fits
        return ranks.sum_over_processes([float(fits)], self._trainer.args.device)[0] == ranks.count()

    def _compile_seconds(self) -> float:
        return self._trainer.meter.phase_seconds.get("compile", 0.0)
