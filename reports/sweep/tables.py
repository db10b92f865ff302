"""Tables of a sweep."""

from __future__ import annotations

import math

from judging.intervals import Interval
from judging.summaries import gain_percent
from reports.comparison.arms import STEADY, Arm
from reports.comparison.tables import factorial_table as comparison_factorial
from reports.comparison.tables import job_url
from reports.model.numbers import NONE, TOO_FEW, figure, money, rate, score, signed_percent
from reports.model.report import Column, Table, build_table
from reports.sweep.messages import OUTCOMES
from reports.sweep.sweep import Cell as FactorialCell
from reports.sweep.sweep import CostShare, Sweep, factorial_cells
from reports.sweep.trials import Trial

MEMORY_COLUMNS = ("memory_peak_reserved_gib", "memory_peak_resident_gib")
_ROLES = {
    "calibration": "calibrations",
    "baseline": "the base setting",
    "trial": "trials",
    "finalist": "second trainings",
    "confirmation": "repeats",
    "other": "others",
    "all": "all",
}


def best_table(sweep: Sweep) -> Table:
    """Return the table with the best trial of each compiler."""
    return build_table("The best settings", best_columns(sweep), sweep.best_trials, style="settings")


def trial_table(sweep: Sweep, most: int, tracking_uri: str = "", *, with_reasons: bool = True) -> Table:
    """Return the table of the first `most` trials, each linked to its run.

    With `with_reasons` False, the reason why a trial was stopped is left out.
    """

    def second_cost(trial: Trial) -> str:
        if trial.second_cost is None:
            return NONE
        return spec.cost_text(trial.second_cost) if math.isfinite(trial.second_cost) else "no success"

    spec = sweep.spec
    second = Column("second training", f"second\ntraining {spec.unit}", spec.unit, second_cost)
    columns = [
        Column[Trial]("setting", "setting", "", lambda t: str(t.setting), url=lambda t: job_url(tracking_uri, t.job)),
        Column[Trial]("trial", "trial", "", lambda t: f"{t.number:.0f}" if math.isfinite(t.number) else NONE),
        _cost(sweep),
        *([second] if any(trial.second_cost is not None for trial in sweep.trials) else []),
        *_figures(sweep),
        Column[Trial]("learning rate", "learn.\nrate", "", lambda t: rate(t.job.number("hp_learning_rate"))),
        Column[Trial](
            "end",
            "end",
            "",
            lambda t: t.end if with_reasons or t.kind == "failed" else t.kind,
            lambda t: t.failure,
            kind="text",
        ),
    ]
    return build_table("Trials", columns, sweep.trials[:most], style="settings trials", state=lambda t: t.kind)


def cost_table(sweep: Sweep) -> Table:
    """Return the table of the sweep's cost by role. The trials' cost is also split by outcome."""

    def label(share: CostShare) -> str:
        """Return the jobs' role, or the trials' outcome, which is indented below the trials."""
        outcome = OUTCOMES.get(share.what, share.what).removeprefix("that ")
        return _ROLES.get(share.what) or f"\u2003of them {outcome}"

    shares = []
    for share in sweep.cost_by_role():
        shares += [share, *(sweep.cost_by_outcome() if share.what == "trial" else [])]
    total = shares[-1].seconds
    columns = [
        Column[CostShare]("role", "role", "", label),
        Column[CostShare]("jobs", "jobs", "", lambda s: str(s.jobs)),
        Column[CostShare]("billed", "billed\ns", "s", lambda s: figure(s.seconds)),
        Column[CostShare]("cost", "cost\nUSD", "USD", lambda s: money(s.usd)),
        Column[CostShare]("share", "share\n%", "%", lambda s: f"{100 * s.seconds / total:.0f}" if total else NONE),
    ]
    if not any(share.usd > 0 for share in shares):
        columns = [column for column in columns if column.label != "cost"]
    return build_table("Cost of the sweep", columns, shares, is_sortable=False)


def factorial_table(sweep: Sweep) -> Table | None:
    """Return the table of the effects of compiler and batch; None without enough repeats."""
    cells = {(cell.setting.compiler, cell.setting.point): cell for cell in factorial_cells(sweep)}
    if not cells:
        return None
    compilers, points = (list(dict.fromkeys(factors)) for factors in zip(*cells, strict=True))
    rows = {name: [_cell_texts(sweep, cells.get((name, point))) for point in points] for name in compilers}
    return comparison_factorial(points, rows)


def best_columns(sweep: Sweep) -> list[Column[Trial]]:
    """Return the columns for the best trial of each compiler."""
    spec = sweep.spec

    def ratio_of(trial: Trial) -> Interval | None:
        arm = sweep.arm_of(trial.setting)
        return sweep.ratio(arm, sweep.arm_of(sweep.base)) if arm else None

    def change(trial: Trial) -> str:
        if trial.setting == sweep.base:
            return "base"
        return signed_percent(ratio.estimate) if (ratio := ratio_of(trial)) else NONE

    def interval(trial: Trial) -> str:
        if ratio := ratio_of(trial):
            return _ends(ratio)
        if trial.setting == sweep.base:
            return ""
        arm = sweep.arm_of(trial.setting)
        return (_missed(sweep, arm) or "no interval") if arm else "not repeated"

    def cost(trial: Trial) -> str:
        arm = sweep.arm_of(trial.setting)
        return spec.cost_text(sweep.shown_cost(arm)) if arm else NONE

    def extremes(trial: Trial) -> str:
        arm = sweep.arm_of(trial.setting)
        costs = arm.summary(sweep.column) if arm else None
        return f"{spec.cost_text(costs.low)}–{spec.cost_text(costs.high)}, n = {costs.n}" if costs else ""

    against = Column[Trial]("against the base", "against\nbase", "", change, interval)
    repeated = Column[Trial]("repeats", "repeats", spec.unit, cost, extremes)
    largest = Column[Trial]("largest batch that fits", "largest\nfits", "", lambda t: _largest(sweep, t))
    compared = [against] if sweep.confirmation else []
    extra = [repeated] if sweep.confirmation else []
    extra += [largest] if sweep.calibrations else []
    setting = Column[Trial]("setting", "setting", "", lambda t: str(t.setting))
    known = [column for column in extra if any(column.value(t) != NONE for t in sweep.best_trials)]
    return [setting, _cost(sweep), *compared, *known, *_figures(sweep)]


def peak_memory_gib(trial: Trial) -> float:
    """Return a trial's peak memory: the device's, or the process's if it trains on the CPU."""
    values = [trial.job.number(column) for column in MEMORY_COLUMNS]
    return next((value for value in values if 0 < value < math.inf), math.nan)


def _cost(sweep: Sweep) -> Column[Trial]:
    name = {"billable_seconds": "billed", "usd": "cost"}.get(sweep.spec.cost, "steady")
    unit = sweep.spec.unit
    return Column(name, f"{name}\n{unit}", unit, lambda t: sweep.spec.cost_text(t.cost))


def _figures(sweep: Sweep) -> list[Column[Trial]]:
    name = sweep.spec.quality_name
    columns: list[Column[Trial]] = [
        Column("samples seen", "samples\nseen", "", lambda t: figure(t.job.number("samples"))),
        Column(name, name.replace("eval_", "val.\n"), "", lambda t: score(t.quality)),
        Column("steady", "steady\n/s", "samples/s", lambda t: figure(t.job.number(STEADY))),
        Column("peak memory", "peak\nGiB", "GiB", lambda t: figure(peak_memory_gib(t))),
    ]
    if sweep.spec.is_rate:
        columns = [column for column in columns if column.label != "steady"]
    return [column for column in columns if any(column.value(trial) != NONE for trial in sweep.trials)]


def _missed(sweep: Sweep, arm: Arm) -> str:
    """Return the number of repeats that missed the target and have no comparable cost; empty if all reached it."""
    n = sweep.missed(arm)
    return f"{n} of {len(arm.succeeded)} missed the target" if n else ""


def _ends(ratio: Interval) -> str:
    if not ratio.is_informative:
        return TOO_FEW
    return f"{gain_percent(ratio.low):+,.0f} to {gain_percent(ratio.high):+,.0f} %".replace("-", "−")


def _largest(sweep: Sweep, trial: Trial) -> str:
    calibrations = [c for c in sweep.calibrations if c.compiler == trial.setting.compiler]
    if not calibrations or not calibrations[-1].largest > 0:
        return NONE
    latest = calibrations[-1]
    return f"{'' if latest.too_large else '≥ '}{latest.largest:g}"


def _cell_texts(sweep: Sweep, cell: FactorialCell | None) -> tuple[str, str]:
    """Return the change against the base setting, and the cost with the interval."""
    if cell is None:
        return NONE, ""
    repeats = cell.arm.summary(sweep.column)
    shown = sweep.spec.cost_text(sweep.shown_cost(cell.arm))
    cost = f"{shown} {sweep.spec.unit}, n = {repeats.n}" if repeats else "no repeat"
    if cell.setting == sweep.base:
        return "base", cost
    if cell.ratio is None:
        return _missed(sweep, cell.arm) or NONE, cost
    return signed_percent(cell.ratio.estimate), f"{_ends(cell.ratio)}; {cost}"
