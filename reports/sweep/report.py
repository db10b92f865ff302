"""The report of a sweep, also its figures as data, and the results for which a script may want to fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

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
from reports.comparison.tables import job_sections, looks_sections, looks_summary, short_looks
from reports.model.numbers import percent
from reports.model.report import (
    Block,
    Chart,
    Command,
    Definition,
    Definitions,
    Metric,
    Report,
    Section,
    Sentences,
    ShortAnswer,
    Text,
)
from reports.sweep import messages
from reports.sweep.messages import headline
from reports.sweep.sweep import Sweep, factorial_cells, grid_of
from reports.sweep.tables import best_table, cost_table, factorial_table, trial_table
from reports.sweep.trials import Trial

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
