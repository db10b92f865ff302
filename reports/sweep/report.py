"""The report of a sweep, its tables and its figures as data, and the results for which a script may want to fail."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from judging.intervals import Interval
from judging.summaries import gain_percent
from reports.comparison.arms import Arm
from reports.comparison.report import (
    MEASURED,
    TYPICAL,
    Source,
    chart_sections,
    cheaper,
    contrast_summary,
    percent_metric,
    ran_on_sections,
    results_by_arm,
    settings_table,
    unlike_notes,
)
from reports.comparison.tables import factorial_table as comparison_factorial
from reports.comparison.tables import job_sections, job_url, looks_sections, looks_summary, short_looks
from reports.model.numbers import NONE, TOO_FEW, figure, money, percent, rate, score, signed_percent
from reports.model.report import (
    Block,
    Chart,
    Column,
    Command,
    Definition,
    Definitions,
    Metric,
    Report,
    Section,
    Sentences,
    ShortAnswer,
    Table,
    Text,
    build_table,
)
from reports.sweep import messages
from reports.sweep.messages import OUTCOMES, headline
from reports.sweep.sweep import Cell as FactorialCell
from reports.sweep.sweep import CostShare, Sweep, factorial_cells, grid_of
from reports.sweep.trials import Trial
from tracking.recorded.recorded_job import STEADY

MAX_TRIALS = 200
"""Number of trials on a page; `jobs.csv` has all of them."""
MAX_LISTED = 10
"""Number of trials in the terminal and in the run's description."""
_DEFINITIONS = (
    Definition(
        "Billable seconds",
        "Wall-clock time from the start of downloading to the end of uploading, as the service bills it, times the "
        "instances of a job. Provisioning is not included.",
    ),
    Definition(
        "Interval",
        "Cost of the repeats over that of the base's repeats, with its 95 % interval. Trials do not count, because "
        "the best of many is partly the luckiest one. Each repeat has another seed, so with a target the interval "
        "includes the spread of the samples that seeds need.",
    ),
    Definition(
        "Calibration",
        "One job per compiler trains a few steps at every batch size. It measures the seconds per step with the 95 % "
        "interval of their mean, the memory of the largest batch, and which sizes do not fit. The fitted line is a "
        "fixed time per step plus a time per sample.",
    ),
    Definition(
        "Whole grid",
        "The cost of the settings that were trained to the end. For the others: the fitted time per sample, times the "
        "samples that trials with the same batch size needed, plus a job's time outside its steps.",
    ),
)


def sweep_report(sweep: Sweep, charts: Sequence[Chart], source: Source, chart_note: str = "") -> Report:
    """Return the report of a sweep; `chart_note` is shown below the charts."""
    answer, remarks = headline(sweep), Sentences(tuple(messages.sentences(sweep)))
    lead: tuple[Block, ...] = (*_command(sweep), *([best_table(sweep)] if sweep.best_trials else []), remarks)
    short_trials = (trial_table(sweep, MAX_LISTED, with_reasons=False),) if sweep.trials else ()
    tables = (*((trial_table(sweep, MAX_LISTED),) if sweep.trials else ()), cost_table(sweep))
    return Report(
        group=sweep.group,
        title=source.title,
        headline=answer,
        answer=(*_command(sweep), remarks),
        sections=tuple(_sections(sweep, charts, source, chart_note)),
        terminal=(Text(answer, "strong"), *lead, *short_trials),
        markdown=(*lead, *tables, *(short_looks(sweep.confirmation) if sweep.confirmation else ())),
        missing=source.missing,
        summary=summary_of(sweep),
        metrics=tuple(metrics_of(sweep)),
        results=results_of_winner(sweep),
        rules=sweep.rules,
        short_answer=short_answer_of(sweep),
        rows_csv=source.table.to_csv(index=False),
    )


def _command(sweep: Sweep) -> tuple[Block, ...]:
    return (Command("Train the best trial's setting:", sweep.train_command),) if sweep.train_command else ()


def _sections(sweep: Sweep, charts: Sequence[Chart], source: Source, chart_note: str) -> Iterator[Section]:
    if sweep.best_trials:
        title = "Pareto-optimal settings" if sweep.spec.is_front else "The best of each compiler setting"
        yield Section(title, (best_table(sweep),))
    if factorial := factorial_table(sweep):
        change = f"Change in {sweep.spec.cost_name} against {sweep.base} with its 95 % interval"
        yield Section(factorial.name, (factorial, Text(f"{change}, and the typical value of the repeats.", "small")))
    yield from chart_sections(charts, chart_note)
    if sweep.jobs:
        yield Section("Cost of the sweep", (cost_table(sweep),))
    if n := len(sweep.trials):
        left_out = Text(f"The first {MAX_TRIALS} of {n} trials; jobs.csv has all.", "small")
        trials = trial_table(sweep, MAX_TRIALS, source.tracking_uri)
        yield Section("The trials, best first", (trials, *([left_out] if n > MAX_TRIALS else [])))
    if sweep.confirmation and (repeats := settings_table(sweep.confirmation)):
        yield Section("The repeats", (repeats, *unlike_notes(sweep.confirmation), Text(TYPICAL, "small")))
        yield from looks_sections(sweep.confirmation)
    others = [job for job in sweep.jobs if job.text.get("role") != "trial"]
    yield from job_sections(others, source.tracking_uri, "Calibrations, base setting and repeats")
    yield Section(MEASURED, (Definitions((*_goal(sweep), *_DEFINITIONS)),))
    yield from ran_on_sections(sweep.jobs, source.environment, sweep.group)


def _goal(sweep: Sweep) -> Iterator[Definition]:
    spec = sweep.spec
    if spec.target is not None:
        yield Definition(
            "To the target",
            f"A job ends at the evaluation that reaches {spec.quality_name} {spec.target:g}. Its whole cost counts, "
            "however many samples it saw. A trial that was stopped, or that ended without reaching the target, has no "
            "cost to compare.",
        )
    if spec.bound is not None:
        yield Definition(
            "Bound",
            f"All jobs train on the same samples. The best trial is the cheapest one with {spec.quality_name} "
            f"{spec.bound:g} or better.",
        )


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
        if sweep.spec.is_rate:
            yield percent_metric("sweep/gain_percent", ratio, sign=1)
        else:
            yield percent_metric("sweep/saving_percent", ratio)
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


def results_of_winner(sweep: Sweep) -> Mapping[str, tuple[str, ...]]:
    """Return the label of the winner with each of the results in `FAIL_ON` that it has.

    The controls, which only separate the effects of compiler and batch, do not count, but for *failed* all repeats do.
    A sweep is inconclusive without a winner, for a Pareto front, and if the winner was not repeated. A winner that is
    the base setting has no result: nothing has to be shown. For a throughput, *dearer* means that the whole interval
    lies below 1.
    """
    best, comparison = sweep.best, sweep.confirmation
    failed = {"failed": labels} if comparison and (labels := results_by_arm(comparison).get("failed")) else {}
    if best is None or sweep.spec.is_front:
        return {"inconclusive": ("the sweep",), **failed}
    if best.setting == sweep.base:
        return failed
    contrast = sweep.contrast_of(best.setting)
    if comparison is None or contrast is None:
        return {"inconclusive": (str(best.setting),), **failed}
    label = contrast.arm.label
    own = {result for result, labels in results_by_arm(comparison).items() if label in labels} - {"failed"}
    if sweep.spec.is_rate and contrast.verdict.outcome != "not comparable":
        ratio = sweep.interval_of(best)
        if ratio is None or ratio.low <= 1 <= ratio.high:
            own = (own & {"worse"}) | {"inconclusive"}
        else:
            own = (own & {"worse"}) | ({"dearer"} if ratio.high < 1 else set())
    return {**dict.fromkeys(sorted(own), (label,)), **failed}


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
