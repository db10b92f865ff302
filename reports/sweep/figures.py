"""A sweep's figures as data: its summary, its metrics and its short answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from judging.intervals import Interval
from judging.summaries import gain_percent
from reports.comparison.figures import cheaper, contrast_summary, saving_metric
from reports.comparison.look_table import looks_summary
from reports.model.numbers import percent
from reports.model.report import Metric, ShortAnswer
from reports.sweep.factorial import factorial_cells
from reports.sweep.grid_cost import grid_of
from reports.sweep.headline import headline
from reports.sweep.sweep import Sweep
from reports.sweep.trials import Trial


def summary_of(sweep: Sweep) -> dict[str, Any]:
    """Return numbers and verdicts; non-finite numbers are kept, although strict JSON forbids them."""
    grid, best = grid_of(sweep), {name: sweep.best_of(name) for name in sweep.compilers}
    contrasts = sweep.confirmation.contrasts if sweep.confirmation else None
    return {
        "group": sweep.group,
        "headline": headline(sweep),
        "best": _trial(sweep.best) if sweep.best else None,
        "best_by_compiler": {name: _trial(trial) if trial else None for name, trial in best.items()},
        "front": [_trial(trial) for trial in sweep.front] if sweep.spec.is_front else None,
        "base": {**asdict(sweep.base), "cost": sweep.base_cost},
        "train_command": sweep.train_command,
        "trials": [_trial(trial) for trial in sweep.trials],
        "rules": sweep.rules,
        **looks_summary(sweep.confirmation),
        "confirmation": [contrast_summary(each) for each in contrasts] if contrasts is not None else None,
        "two_by_two": [
            {**asdict(cell.setting), "ratio": asdict(cell.ratio) if cell.ratio else None}
            for cell in factorial_cells(sweep)
        ],
        "spent": [asdict(each) for each in sweep.cost_by_role()],
        "spent_on_trials": [asdict(each) for each in sweep.cost_by_outcome()],
        "grid": asdict(grid) if grid else None,
        "stopped_because": dict(sweep.spec.stopped_because),
    }


def metrics_of(sweep: Sweep) -> Iterator[Metric]:
    """Yield the costs of the sweep, the best setting, the base setting and each compiler's best setting."""
    cost, best, total = sweep.spec.cost, sweep.best, sweep.cost_by_role()[-1]
    yield Metric(name="sweep/paid_billable_instance_seconds", value=total.seconds)
    yield Metric(name="sweep/paid_usd", value=total.usd)
    if best is None:
        return
    yield Metric(name=f"sweep/best_{cost}", value=sweep.cost_of(best))
    yield Metric(name=f"sweep/base_{cost}", value=sweep.base_cost)
    if ratio := sweep.interval_of(best):
        is_rate = sweep.spec.is_rate
        yield _gain("sweep/gain_percent", ratio) if is_rate else saving_metric("sweep/saving_percent", ratio)
    for compiler in sweep.compilers:
        if trial := sweep.best_of(compiler):
            yield Metric(name=f"best_{cost}", label=compiler, value=sweep.cost_of(trial))


def short_answer_of(sweep: Sweep) -> ShortAnswer:
    """Return the answer in a few words, such as `inductor at batch 64, 31 % cheaper`."""
    best = sweep.best
    if best is None:
        return ShortAnswer("", "no answer")
    if sweep.spec.is_front and len(sweep.front) > 1:
        return ShortAnswer("", f"{len(sweep.front)} Pareto-optimal settings")
    if best.setting == sweep.base:
        return ShortAnswer("", "nothing better")
    setting, contrast, ratio = str(best.setting), sweep.contrast_of(best.setting), sweep.interval_of(best)
    outcome = contrast.verdict.outcome if contrast else None
    if outcome == "not comparable":
        return ShortAnswer("", "not comparable")
    if ratio is None:
        return ShortAnswer(setting, ", not reliably" if outcome == "not cheaper" else ", the best trial")
    if sweep.spec.is_rate:
        faster = ShortAnswer(setting, f", {percent(ratio.estimate)} % faster")
        return faster if ratio.low > 1 else ShortAnswer("", "inconclusive")
    if outcome == "cheaper":
        return cheaper(setting, ratio)
    return ShortAnswer("", "nothing cheaper" if outcome == "not cheaper" else "inconclusive")


def _gain(name: str, ratio: Interval) -> Metric:
    low, high = gain_percent(ratio.low), gain_percent(ratio.high)
    return Metric(name=name, value=gain_percent(ratio.estimate), interval=(low, high) if ratio.is_informative else None)


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        **asdict(trial.setting),
        "trial": trial.number,
        "run_id": trial.job.run_id,
        "end": trial.end,
        "cost": trial.cost,
        "second_cost": trial.second_cost,
        "quality": trial.quality,
        "samples": trial.job.number("samples"),
    }
