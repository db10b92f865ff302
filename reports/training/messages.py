"""The sentences in the report of one training."""

from __future__ import annotations

from judging.quality import Measure
from reports.comparison.arms import Arm, Job
from reports.comparison.equal_work import BILLABLE, DOLLARS
from reports.model.numbers import figure, money, score
from reports.model.wording import short
from training.contract.failures import failure_text

_MAX_CHARACTERS = 200
"""Length at which a failure message is cut."""


def headline(job: Job, measure: Measure | None) -> str:
    """Return the outcome in one sentence."""
    if job.unfinished:
        return "The training has not ended."
    if job.stopped:
        return f"The training was stopped after {seconds_text(job)}."
    if job.failed:
        reason = failure_text(job.text.get("failure_class") or "", job.text.get("failure_message") or "")
        why = short(reason, _MAX_CHARACTERS).rstrip(".")
        return f"The training failed after {seconds_text(job)}{f': {why}' if why else ''}."
    quality = score(job.number(measure.column)) if measure else ""
    return f"The training took {seconds_text(job)}{f' and reached {measure.label} {quality}' if measure else ''}."


def short_answer(job: Job) -> str:
    """Return the outcome in a few words, for the name of the group's run."""
    if job.unfinished:
        return "no answer yet"
    if job.stopped or job.failed:
        return "stopped" if job.stopped else "failed"
    return f"{figure(job.number(BILLABLE))} s billed" if job.number(BILLABLE) > 0 else "billed seconds unknown"


def remarks(arm: Arm) -> list[str]:
    """Return the cost in dollars, savings from spot capacity, and doubts about the figures."""
    [job] = arm.jobs
    sentences = [f"It cost {money(usd)} USD."] if (usd := job.number(DOLLARS.column)) > 0 else []
    sentences += [f"The figures do not match the compiler setting: {warning}." for warning in arm.compiler_warnings]
    if (saved := job.number("cost_spot_savings_percent")) > 0:
        sentences.append(f"On spot capacity, it was billed {figure(saved)} % less than its running time.")
    if job.disturbances:
        sentences.append(f"Its measurement was disturbed: {', '.join(job.disturbances)}.")
    return sentences


def seconds_text(job: Job) -> str:
    """Return the billable instance seconds, such as `12.3 billable seconds`."""
    seconds = job.number(BILLABLE)
    return f"{figure(seconds)} billable seconds" if seconds >= 0 else "an unknown number of billable seconds"
