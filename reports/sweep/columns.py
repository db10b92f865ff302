"""The tables of a sweep, the same on the page, in the terminal and in MLflow's description."""

from __future__ import annotations

import math

from judging.summaries import gain_percent
from reports.comparison.arms import Arm
from reports.comparison.columns import Column
from reports.comparison.comparison import STEADY
from reports.comparison.messages import NONE, figure, rate, score, signed_percent
from reports.sweep.factorial import Cell
from reports.sweep.messages import UNITS, cost_figure, money, quality_name, spent_label
from reports.sweep.sweep import Spent, Sweep
from reports.sweep.trials import Trial

MEMORY_COLUMNS = ("memory_peak_reserved_gib", "memory_peak_resident_gib")


def best_columns(sweep: Sweep) -> list[Column[Trial]]:
    """Return the columns of the table of each compiler's best."""
    against = Column[Trial](
        "against the base", "against\nbase", "", lambda t: _against(sweep, t), lambda t: _interval(sweep, t)
    )
    repeated = Column[Trial](
        "repeats",
        "repeats",
        UNITS.get(sweep.asked.cost, ""),
        lambda t: _repeats(sweep, t),
        lambda t: _extremes(sweep, t),
    )
    largest = Column[Trial]("largest batch that fits", "largest\nfits", "", lambda t: _largest(sweep, t))
    extra = [repeated] if sweep.confirmation else []
    extra += [largest] if sweep.calibrations else []
    setting = Column[Trial]("setting", "setting", "", lambda t: str(t.setting))
    told = [column for column in [against, *extra] if any(column.value(t) != NONE for t in sweep.best_trials)]
    return [setting, _cost(sweep), *told, *_figures(sweep)]


def trial_columns(sweep: Sweep, *, with_reasons: bool = True) -> list[Column[Trial]]:
    """Return the columns of the table of trials; without reasons a trial that was stopped is told as just that."""
    return [
        Column("setting", "setting", "", lambda t: str(t.setting)),
        Column("trial", "trial", "", lambda t: _whole(t.number)),
        _cost(sweep),
        *_figures(sweep),
        Column("learning rate", "learn.\nrate", "", lambda t: _rate(t.job.number("hp_learning_rate"))),
        Column(
            "end", "end", "", lambda t: t.end if with_reasons or t.kind == "failed" else t.kind, lambda t: t.failure
        ),
    ]


def spent_columns(sweep: Sweep) -> list[Column[Spent]]:
    """Return the columns of the table of what the sweep cost."""
    has_price = any(each.usd > 0 for each in sweep.spent())
    everything = sweep.spent()[-1].seconds
    share = Column[Spent](
        "share", "share\n%", "%", lambda s: f"{100 * s.seconds / everything:.0f}" if everything else NONE
    )
    return [
        Column("what", "what", "", spent_label),
        Column("jobs", "jobs", "", lambda s: str(s.jobs)),
        Column("billed", "billed\ns", "s", lambda s: figure(s.seconds)),
        *([Column[Spent]("cost", "cost\nUSD", "USD", lambda s: money(s.usd))] if has_price else []),
        share,
    ]


def cell_texts(sweep: Sweep, cell: Cell) -> tuple[str, str]:
    """Return a cell of the two by two: its change against the base setting, and its cost with the interval."""
    told = cell.arm.summary(sweep.column)
    cost = f"{cost_figure(sweep, told.median)} {UNITS.get(sweep.asked.cost, '')}, n = {told.n}" if told else "no repeat"
    if cell.setting == sweep.base:
        return "base", cost
    if cell.ratio is None:
        return _missed(sweep, cell.arm) or NONE, cost
    return signed_percent(cell.ratio.estimate), f"{_ends(cell.ratio.low, cell.ratio.high)}; {cost}"


def peak_memory_gib(trial: Trial) -> float:
    """Return the most memory a trial took: of the device, or of the process where it computes on a processor."""
    told = [trial.job.number(column) for column in MEMORY_COLUMNS]
    return next((value for value in told if 0 < value < math.inf), math.nan)


def _cost(sweep: Sweep) -> Column[Trial]:
    name = {"billable_seconds": "billed", "usd": "cost"}.get(sweep.asked.cost, "steady")
    unit = UNITS.get(sweep.asked.cost, "")
    return Column(name, f"{name}\n{unit}", unit, lambda t: cost_figure(sweep, t.cost))


def _figures(sweep: Sweep) -> list[Column[Trial]]:
    name = quality_name(sweep)
    told: list[Column[Trial]] = [
        Column("samples seen", "samples\nseen", "", lambda t: figure(t.job.number("samples"))),
        Column(name, name.replace("eval_", "val.\n"), "", lambda t: score(t.quality)),
        Column("steady", "steady\n/s", "samples/s", lambda t: figure(t.job.number(STEADY))),
        Column("peak memory", "peak\nGiB", "GiB", lambda t: figure(peak_memory_gib(t))),
    ]
    told = told if not sweep.asked.is_rate else [column for column in told if column.label != "steady"]
    return [column for column in told if any(column.value(trial) != NONE for trial in sweep.trials)]


def _against(sweep: Sweep, trial: Trial) -> str:
    arm = sweep.arm_of(trial.setting)
    if trial.setting == sweep.base:
        return "base"
    if arm and (ratio := sweep.ratio(arm, sweep.arm_of(sweep.base))):
        return signed_percent(ratio.estimate)
    return signed_percent(trial.cost / sweep.base_cost) if math.isfinite(sweep.base_cost) else NONE


def _interval(sweep: Sweep, trial: Trial) -> str:
    arm = sweep.arm_of(trial.setting)
    ratio = sweep.ratio(arm, sweep.arm_of(sweep.base)) if arm else None
    if ratio:
        return _ends(ratio.low, ratio.high)
    if _against(sweep, trial) in ("base", NONE):
        return ""
    return (_missed(sweep, arm) or "no interval") if arm else "not repeated"


def _missed(sweep: Sweep, arm: Arm) -> str:
    """Return why repeats give no cost to compare; empty where all of them reached the target."""
    n = sweep.missed(arm)
    return f"{n} of {len(arm.headline)} missed it" if n else ""


def _ends(low: float, high: float) -> str:
    return f"{gain_percent(low):+,.0f} to {gain_percent(high):+,.0f} %".replace("-", "−")


def _repeats(sweep: Sweep, trial: Trial) -> str:
    arm = sweep.arm_of(trial.setting)
    told = arm.summary(sweep.column) if arm else None
    return f"{cost_figure(sweep, told.median)}" if told else NONE


def _extremes(sweep: Sweep, trial: Trial) -> str:
    arm = sweep.arm_of(trial.setting)
    told = arm.summary(sweep.column) if arm else None
    return f"{cost_figure(sweep, told.low)}–{cost_figure(sweep, told.high)}, n = {told.n}" if told else ""


def _largest(sweep: Sweep, trial: Trial) -> str:
    told = [c for c in sweep.calibrations if c.compiler == trial.setting.compiler]
    if not told or not told[-1].largest > 0:
        return NONE
    return f"{'' if told[-1].too_large else '≥ '}{told[-1].largest:g}"


def _whole(value: float) -> str:
    return f"{value:.0f}" if math.isfinite(value) else NONE


def _rate(value: float) -> str:
    return rate(value) if math.isfinite(value) else NONE
