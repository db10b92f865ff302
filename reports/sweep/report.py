"""The report of a sweep, its tables and its figures as data, and the results for which a script may want to fail."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from judging.summaries import gain_percent
from reports.comparison.report import (
    TYPICAL,
    Source,
    chart_sections,
    contrast_summary,
    percent_metric,
    ran_on_sections,
    results_by_arm,
    settings_blocks,
    verdicts_of,
)
from reports.comparison.tables import job_sections, job_url, looks_sections, looks_summary
from reports.model.numbers import NONE, money, rate, score, signed_interval, signed_percent
from reports.model.report import (
    Block,
    Cell,
    Chart,
    Column,
    Command,
    Definition,
    Metric,
    Report,
    Section,
    Table,
    Text,
    build_table,
    measured_section,
    number_cell,
)
from reports.sweep import messages
from reports.sweep.messages import OUTCOMES
from reports.sweep.sweep import CostShare, Sweep, factorial_settings
from reports.sweep.trials import Trial
from tracking.recorded.arms import Arm
from tracking.recorded.recorded_job import STEADY

MAX_TRIALS = 200
"""Number of trials on a page; `jobs.csv` has all of them."""
MAX_LISTED = 10
"""Number of trials in the terminal and in the run's description."""
_MEASURED = (
    Definition(
        "Interval",
        "95 % interval of the cost of the repeats, over the cost of the base's repeats. Trials do not count, because "
        "the best of many is partly the luckiest one.",
    ),
    Definition("Calibration", "One job per compiler trains a few steps at every batch size."),
)


def sweep_report(sweep: Sweep, charts: Sequence[Chart], source: Source) -> Report:
    best = sweep.front if sweep.spec.is_front else (sweep.best,)
    (answer, short_answer, lines), remarks = messages.answer_of(sweep), tuple(map(Text, messages.sentences(sweep)))
    command: tuple[Block, ...] = (*map(Text, lines), *_command(sweep))
    tables = (best_table(sweep),) if sweep.best_trials else ()
    trials = (trial_table(sweep, MAX_LISTED),) if sweep.trials else ()
    return Report(
        group=sweep.group,
        title=source.title,
        headline=answer,
        answer=(*command, *remarks),
        sections=(
            *_sections(sweep, charts, source),
            measured_section(*_MEASURED),
            *ran_on_sections(sweep.jobs, source.environment, sweep.group),
        ),
        brief=(*command, *tables, *remarks, *trials),
        missing=source.missing,
        summary=summary_of(sweep),
        metrics=tuple(metrics_of(sweep)),
        results=results_of_winner(sweep),
        verdicts={
            **{job.run_id: job.text.get("role") or NONE for job in sweep.jobs},
            **(verdicts_of(sweep.confirmation) if sweep.confirmation else {}),
            **{each.job.run_id: "best" if each in best else each.kind for each in sweep.trials},
        },
        short_answer=short_answer,
        rows_csv=source.table.to_csv(index=False),
    )


def _command(sweep: Sweep) -> tuple[Block, ...]:
    return (Command("Train the best setting:", sweep.train_command),) if sweep.train_command else ()


def _sections(sweep: Sweep, charts: Sequence[Chart], source: Source) -> Iterator[Section]:
    if sweep.best_trials:
        title = "Pareto-optimal settings" if sweep.spec.is_front else "The best of each compiler setting"
        yield Section(title, (best_table(sweep),))
    yield from chart_sections(charts)
    if sweep.jobs:
        yield Section("Cost of the sweep", (cost_table(sweep),))
    if n := len(sweep.trials):
        left_out = Text(f"The first {MAX_TRIALS} of {n} trials; jobs.csv has all.", "small")
        trials = trial_table(sweep, MAX_TRIALS, source.tracking_uri)
        yield Section("The trials, best first", (trials, *([left_out] if n > MAX_TRIALS else [])))
    if sweep.confirmation:
        yield Section("The repeats", (*settings_blocks(sweep.confirmation), Text(TYPICAL, "small")))
        yield from looks_sections(sweep.confirmation)
    others = [job for job in sweep.jobs if job.text.get("role") != "trial"]
    yield from job_sections(others, source.tracking_uri, "Calibrations, base setting and repeats")


def summary_of(sweep: Sweep) -> dict[str, Any]:
    """Return numbers and verdicts; non-finite numbers are kept, although strict JSON forbids them."""
    (headline, _, lines), best = messages.answer_of(sweep), {name: sweep.best_of(name) for name in sweep.compilers}
    contrasts = sweep.confirmation.contrasts if sweep.confirmation else None
    return {
        "group": sweep.group,
        "headline": headline,
        "answer": lines,
        "best": _trial(sweep.best) if sweep.best else None,
        "best_by_compiler": {name: _trial(trial) if trial else None for name, trial in best.items()},
        "front": [_trial(trial) for trial in sweep.front] if sweep.spec.is_front else None,
        "base": {**asdict(sweep.base), "cost": sweep.base_cost},
        "train_command": sweep.train_command,
        "trials": [_trial(trial) for trial in sweep.trials],
        "rules": sweep.rules,
        **looks_summary(sweep.confirmation),
        "confirmation": [contrast_summary(each) for each in contrasts] if contrasts is not None else None,
        "compilers": [{**contrast_summary(pair), "other": str(other)} for other, pair in sweep.pairs.items()],
        "two_by_two": [
            {**asdict(setting), "ratio": asdict(ratio) if (ratio := sweep.interval_of(setting)) else None}
            for setting in factorial_settings(sweep)
        ],
        "spent": [asdict(each) for each in sweep.cost_by_role()],
        "spent_on_trials": [asdict(each) for each in sweep.cost_by_outcome()],
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
    if ratio := sweep.interval_of(best.setting):
        if sweep.spec.is_rate:
            yield percent_metric("sweep/gain_percent", ratio, sign=1)
        else:
            yield percent_metric("sweep/saving_percent", ratio)
    for compiler in sweep.compilers:
        if trial := sweep.best_of(compiler):
            yield Metric(name=f"best_{cost}", label=compiler, value=sweep.cost_of(trial))


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
        by_rate: dict[int, set[str]] = {1: set(), 0: {"inconclusive"}, -1: {"dearer"}}
        own = (own & {"worse"}) | by_rate[sweep.shown(contrast)]
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
    return build_table("The best settings", best_columns(sweep), sweep.best_trials, style="settings")


def trial_table(sweep: Sweep, most: int, tracking_uri: str = "") -> Table:
    """Return the table of the first `most` trials, each linked to its run."""
    spec = sweep.spec

    def second_cost(trial: Trial) -> float | str | None:
        failed = trial.second_cost is not None and not math.isfinite(trial.second_cost)
        return "no success" if failed else trial.second_cost

    def end(trial: Trial) -> Cell:
        if trial.kind == "failed":
            return Cell(text=trial.end, detail=trial.failure)
        return Cell(text=trial.kind, detail=trial.end.removeprefix(trial.kind).lstrip(": "))

    columns = [
        Column[Trial]("setting", lambda t: Cell(text=str(t.setting), url=job_url(tracking_uri, t.job))),
        Column[Trial]("trial", lambda t: t.number, text="{:.0f}".format),
        _cost(sweep),
        Column[Trial](
            "second training",
            second_cost,
            head=f"second\ntraining {spec.unit}",
            unit=spec.unit,
            text=spec.cost_text,
            is_optional=True,
        ),
        *_figures(sweep),
        Column[Trial]("learning rate", lambda t: t.job.number("hp_learning_rate"), head="learn.\nrate", text=rate),
        Column[Trial]("end", end, kind="text"),
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
    usd = Column[CostShare]("cost", lambda s: s.usd, unit="USD", text=money)
    percent_of_total = Column[CostShare](
        "share", lambda s: 100 * s.seconds / total if total else None, unit="%", text="{:.0f}".format
    )
    columns = [
        Column[CostShare]("role", label),
        Column[CostShare]("jobs", lambda s: s.jobs),
        Column[CostShare]("billed", lambda s: s.seconds, unit="s"),
        *([usd] if any(share.usd > 0 for share in shares) else []),
        percent_of_total,
    ]
    return build_table("Cost of the sweep", columns, shares)


def best_columns(sweep: Sweep) -> list[Column[Trial]]:
    spec = sweep.spec

    def against_base(trial: Trial) -> Cell:
        arm = sweep.arm_of(trial.setting)
        if trial.setting == sweep.base:
            return Cell(text="base")
        if ratio := sweep.interval_of(trial.setting):
            gain, text = gain_percent(ratio.estimate), signed_percent(ratio.estimate)
            return Cell(text=text, number=gain, detail=signed_interval(ratio))
        return Cell(text=NONE, detail=(_missed(sweep, arm) or "no interval") if arm else "not repeated")

    def repeats(trial: Trial) -> Cell:
        arm = sweep.arm_of(trial.setting)
        costs = arm.summary(sweep.column) if arm else None
        extremes = f"{spec.cost_text(costs.low)}–{spec.cost_text(costs.high)}, n = {costs.n}" if costs else ""
        return number_cell(sweep.shown_cost(arm) if arm else None, spec.cost_text, extremes)

    def largest(trial: Trial) -> Cell:
        latest = next((c for c in reversed(sweep.calibrations) if c.compiler == trial.setting.compiler), None)
        if latest is None or not latest.largest > 0:
            return Cell(text=NONE)
        return Cell(text=f"{'' if latest.too_large else '≥ '}{latest.largest:g}", number=latest.largest)

    against = Column[Trial]("against the base", against_base, head="against\nbase")
    return [
        Column[Trial]("setting", lambda t: str(t.setting)),
        _cost(sweep),
        *([against] if sweep.confirmation else []),
        Column[Trial]("repeats", repeats, unit=spec.unit, is_optional=True),
        Column[Trial]("largest batch that fits", largest, head="largest\nfits", is_optional=True),
        *_figures(sweep),
    ]


def peak_memory_gib(trial: Trial) -> float:
    """Return a trial's peak memory: the device's, or the process's if it trains on the CPU."""
    values = [trial.job.number(column) for column in MEMORY_COLUMNS]
    return next((value for value in values if 0 < value < math.inf), math.nan)


def _cost(sweep: Sweep) -> Column[Trial]:
    name, unit = {"billable_seconds": "billed", "usd": "cost"}.get(sweep.spec.cost, "steady"), sweep.spec.unit
    return Column(name, lambda t: t.cost, unit=unit, text=sweep.spec.cost_text)


def _figures(sweep: Sweep) -> list[Column[Trial]]:
    name = sweep.spec.quality_name
    steady = Column[Trial](
        "steady", lambda t: t.job.number(STEADY), head="steady\n/s", unit="samples/s", is_optional=True
    )
    return [
        Column[Trial]("samples seen", lambda t: t.job.number("samples"), is_optional=True),
        Column[Trial](name, lambda t: t.quality, head=name.replace("eval_", "val.\n"), text=score, is_optional=True),
        *([] if sweep.spec.is_rate else [steady]),
        Column[Trial]("peak memory", peak_memory_gib, head="peak\nGiB", unit="GiB", is_optional=True),
    ]


def _missed(sweep: Sweep, arm: Arm) -> str:
    """Return the number of repeats that missed the target and have no comparable cost; empty if all reached it."""
    n = sweep.missed(arm)
    return f"{n} of {len(arm.succeeded)} missed the target" if n else ""
