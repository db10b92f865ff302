"""Try the candidates for `auto` on real steps, within a time limit.

With a compiler, candidates are measured uncompiled all the same: compiling each one would take longer than a trial may,
and a group that compares compilers needs the same values in all arms.
"""

import time
from dataclasses import replace
from itertools import product
from typing import Any, Dict, List, Sequence, Tuple

import torch

from measuring.memory import reset_peak
from reporting.failure import failure_class
from settings.job_settings import Settings
from tuning.attention_candidates import attention_candidates
from tuning.decision import Decision
from tuning.race import StepFailed, run_race
from tuning.thread_control import ThreadControl
from tuning.trial_steps import Candidate, TrialSteps, undone

BUDGET_SECONDS = 4.75
"""Time after which no step begins, so that a trial usually takes at most 5 s."""
STAGES: Tuple[Tuple[Tuple[str, ...], float], ...] = (
    (("precision", "attention"), 0.7),
    (("dropout",), 0.85),
    (("threads",), 1.0),
)
"""Fields that are tried together, and the share of the budget at which their stage ends at the latest. Precision and
attention depend on each other. The others do not, so they are tried with the best precision and attention."""
STEP_SECONDS = 0.25
"""Longest step for which the trial uses the whole batch and model."""
MAX_BATCHING_GAIN = 4.0
"""Factor by which a row may take less time in a step on the whole batch than in a step on one row: small products use
the CPU badly."""
EMULATED = 4.0
"""Factor of the step on one row beyond which a precision is left out. Below, it may still be the faster one on more
rows: the conversion of the weights takes the same time for any number of rows."""
LEAST_TOKENS = 128
"""Smallest number of tokens in a step. With fewer, most of the step is the conversion of the weights."""
GROWTH = 4
"""Factor by which the number of rows grows from step to step until `STEP_SECONDS` are reached."""


def try_candidates(settings: Settings, model: Any, fields: Sequence[str], control: ThreadControl) -> Decision:
    """Return the fastest value of each field, from steps of which none begins after `BUDGET_SECONDS`.

    All other fields keep their values in `settings`, which are also the preferred ones of `fields`. The number of
    threads is tried only if no other processes use the CPUs: beside them, the best number would hold only for a moment.
    On a GPU, the model stays there afterwards.
    """
    trial = _Trial(settings, model, control)
    with undone(model):
        try:
            if settings.device_kind == "cuda":
                trial.use_whole_batch()
            else:
                trial.compare_on_one_row(fields)
                trial.limit_size()
            for names, share in STAGES:
                trial.run_stage([name for name in names if name in fields], share)
        except Exception as error:
            if failure_class(error) != "OutOfMemory":
                raise
            trial.shortcomings.append("a step of the trial did not fit in memory")
    decision = trial.decision()
    if settings.device_kind == "cuda":
        # The peak that the job reports is that of its training.
        del trial
        reset_peak(settings.device_kind)
    return decision


class _Trial:
    """A trial under way."""

    def __init__(self, settings: Settings, model: Any, control: ThreadControl) -> None:
        self._started, self._control = time.monotonic(), control
        self._steps = TrialSteps(settings, model)
        self._is_on_cpu = settings.device_kind == "cpu"
        self._attentions = attention_candidates(settings, model)
        self._best = Candidate(settings.precision, settings.attention, settings.dropout, None)
        self._values: Dict[str, Any] = {}
        self._rates: Dict[str, float] = {}
        self._emulated: List[str] = []
        """Precisions that are left out."""
        self._fastest_of_one_row = self._best
        """Candidate with the fastest precision on one row."""
        self._wall_seconds = 0.0
        """Wall-clock seconds of the latest step, from which `limit_size` extrapolates. `TrialSteps.seconds` may be CPU
        seconds."""
        self.shortcomings: List[str] = []
        """Reasons why the trial chose without enough measurements."""
        self._failures: List[str] = []
        """Implementations that could not be measured, with the reasons."""

    def use_whole_batch(self) -> None:
        """Choose steps on the whole batch, with one layer if they take long."""
        self._steps.use_rows(self._steps.max_rows)
        self._step(self._best)
        if self._wall_seconds > STEP_SECONDS:
            self._steps.use_one_layer()

    def compare_on_one_row(self, fields: Sequence[str]) -> None:
        """Leave out a precision that the CPU only emulates: its steps take many times as long, even on one row.

        One layer is enough for that.
        """
        self._steps.use_one_layer()
        self._steps.use_rows(1)
        candidates = self._combinations([name for name in fields if name == "precision"])
        seconds: Dict[str, float] = {}
        wall_seconds: Dict[str, float] = {}
        # Only now, not between the candidates: all must be timed with the same clock.
        self._check()
        # The first step of a precision takes longer. It counts only if a second one would take too long.
        for candidate in candidates * 2:
            if not seconds or self._has_time_until(STAGES[0][1]):
                seconds[candidate.precision] = self._timed(candidate)
                wall_seconds[candidate.precision] = self._wall_seconds
        fastest = min(seconds, key=lambda precision: seconds[precision])
        self._fastest_of_one_row = replace(self._best, precision=fastest)
        self._wall_seconds = wall_seconds[fastest]
        if len(candidates) > 1:
            self._rates.update({f"one_row_{each}": 1 / value for each, value in seconds.items()})
        self._emulated = [each for each in seconds if seconds[each] > EMULATED * seconds[fastest]]
        if self._best.precision in self._emulated:
            self._best = replace(self._best, precision=fastest)
            self._values["precision"] = fastest

    def limit_size(self) -> None:
        """Choose steps of about `STEP_SECONDS` at most: on the whole batch, with one layer, or with fewer rows, too."""
        steps, seconds_of_one_row = self._steps, self._wall_seconds
        least = min(steps.max_rows, -(-LEAST_TOKENS // steps.tokens))
        if seconds_of_one_row * steps.max_rows * max(steps.max_layers, 1) <= MAX_BATCHING_GAIN * STEP_SECONDS:
            steps.use_all_layers()
            self._resize(steps.max_rows)
            if self._wall_seconds <= STEP_SECONDS:
                return
            steps.use_one_layer()
        rows, seconds = 1, seconds_of_one_row
        while self._has_time_until(STAGES[0][1]):
            fitting = max(least, int(rows * STEP_SECONDS / seconds))
            larger = min(steps.max_rows, max(rows * GROWTH, least), fitting)
            if rows >= least and larger < rows * 1.5:
                return
            rows = larger
            self._resize(rows)
            seconds = self._wall_seconds

    def _resize(self, rows: int) -> None:
        self._steps.use_rows(rows)
        self._step(self._fastest_of_one_row)

    def run_stage(self, fields: Sequence[str], share: float) -> None:
        """Try all combinations of these fields. The stage ends when `share` of the budget is used."""
        # Only now, not during the race: all candidates must be timed with the same clock.
        self._check()
        if "threads" in fields:
            if not self._control.is_quiet:
                return
            self._best = replace(self._best, threads=self._control.largest)
        candidates = [each for each in self._combinations(fields) if each.precision not in self._emulated]
        if len(candidates) == 1:
            self._values.update({name: getattr(self._best, name) for name in fields})
            return
        steps = self._steps
        # The first step on these rows also prepares what all candidates need, so it would make the first one look slow.
        if self._has_time_until(share):
            self._step(candidates[0])
        race = run_race(
            len(candidates),
            lambda at: self._time_candidate(candidates, at, fields),
            lambda: self._has_time_until(share),
        )
        for at, seconds in race.median_seconds().items():
            self._rates[_label(candidates[at], fields)] = steps.rows / seconds
        if not race.is_complete:
            self.shortcomings.append(f"the trial had no time to compare {' and '.join(fields)}")
        self._best = candidates[race.winner]
        self._values.update({name: getattr(self._best, name) for name in fields})

    def _time_candidate(self, candidates: Sequence[Candidate], at: int, fields: Sequence[str]) -> float:
        """Return the seconds of a step. Raises `StepFailed` if another attention than the preferred one fails."""
        candidate = candidates[at]
        try:
            return self._steps.seconds(candidate)
        except Exception as error:
            if candidate.attention == self._best.attention:
                raise
            reason = str(error).strip().partition("\n")[0]
            text = f"the trial of {_label(candidate, fields)} failed: {type(error).__name__}: {reason}"
            # Another process may have taken the memory for a moment, so another group should try again.
            (self.shortcomings if failure_class(error) == "OutOfMemory" else self._failures).append(text)
            raise StepFailed(at) from error

    def _check(self) -> None:
        self._control.check()
        is_crowded = torch.get_num_threads() == 1 or not self._control.is_quiet
        self._steps.counts_cpu_time = self._is_on_cpu and is_crowded

    def _step(self, candidate: Candidate) -> float:
        self._check()
        return self._timed(candidate)

    def _timed(self, candidate: Candidate) -> float:
        started = time.monotonic()
        seconds = self._steps.seconds(candidate)
        self._wall_seconds = max(time.monotonic() - started, 1e-6)
        return seconds

    def decision(self) -> Decision:
        """Return the outcome."""
        steps, remark = self._steps, "; ".join([*self.shortcomings, *self._failures])
        seconds, is_complete = time.monotonic() - self._started, not self.shortcomings
        return Decision(
            self._values, self._rates, seconds, steps.rows, steps.tokens, steps.layers, remark, is_complete=is_complete
        )

    def _combinations(self, fields: Sequence[str]) -> List[Candidate]:
        """Return the candidates, the preferred one first."""
        best = self._best
        others: Dict[str, List[Any]] = {
            "precision": ["bf16", "fp32"],
            "attention": self._attentions,
            "dropout": ["bulk", "torch"],
            "threads": [(best.threads or 1) // 2, 1],
        }
        values = [list(dict.fromkeys([getattr(best, name), *others[name]])) for name in fields]
        return [replace(best, **dict(zip(fields, each))) for each in product(*values)]

    def _has_time_until(self, share: float) -> bool:
        return time.monotonic() < self._started + share * BUDGET_SECONDS


def _label(candidate: Candidate, fields: Sequence[str]) -> str:
    """Return the name of a candidate in the metrics, such as `bf16_eager`, `dropout_bulk` or `threads_2`."""
    texts = {
        "precision": candidate.precision,
        "attention": candidate.attention,
        "dropout": f"dropout_{candidate.dropout}",
        "threads": f"threads_{candidate.threads}",
    }
    return "_".join(texts[name] for name in fields)
