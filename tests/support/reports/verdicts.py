"""Arms, verdicts and tables of jobs of worked examples."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from judging.design import Design
from judging.quality import Measure
from reports.comparison.comparison import Difference, Verdict, judge
from tracking.recorded.arms import Arm
from tracking.recorded.recorded_job import EVALUATIONS, Job
from tracking.recorded.waves import one_look

ACCURACY = EVALUATIONS["eval_accuracy"]
AT_045 = {"hp_target_stop": "True", "hp_target_metric": "eval_loss", "hp_target_value": "0.45"}


def job(billed: float, *, cache: str = "off", **numbers: float) -> Job:
    numbers_of_job = {"cost_billable_instance_seconds": billed, "samples": 2000.0, "eval_accuracy": 0.9, **numbers}
    return Job(
        run_id="r",
        experiment_id="1",
        name="j",
        status="FINISHED",
        arm="a",
        is_baseline=False,
        repeat="0",
        cache_state=cache,
        text={"device": "cpu", "data_key": "k", "instance_type": "local"},
        numbers={name: value for name, value in numbers_of_job.items() if value == value},
    )


def arm(*billed: float, label: str = "inductor", **numbers: float) -> Arm:
    return Arm(label, tuple(job(seconds, **numbers) for seconds in billed))


def with_text(of: Arm, **text: str) -> Arm:
    """Return an arm whose jobs have these tags and parameters too."""
    return Arm(of.label, tuple(replace(each, text={**each.text, **text}) for each in of.jobs))


def numbered(label: str, *jobs: Job, **text: str) -> Arm:
    """Return an arm of jobs with the repeats 0, 1, 2, ... and with these tags and parameters too."""
    return with_text(Arm(label, tuple(replace(each, repeat=str(at)) for at, each in enumerate(jobs))), **text)


def to_target(label: str, *billed: float, reached: int | None = None, **numbers: float) -> Arm:
    """Return an arm whose jobs end at eval_loss 0.45. The first `reached` of them reach it; with None, all of them."""
    reaching = len(billed) if reached is None else reached
    jobs = (job(seconds, target_reached=float(at < reaching), **numbers) for at, seconds in enumerate(billed))
    return with_text(Arm(label, tuple(jobs)), **AT_045)


def with_seed(of: Job, at: int) -> Job:
    return replace(of, repeat=str(at), text={**of.text, "hp_seed": str(at)})


def judged(mine: Arm, baseline: Arm, measure: Measure | None = ACCURACY) -> Verdict:
    """Return the verdict at one look at all jobs, with the seeds 0, 1, 2, ... in each arm."""
    sides = [
        Arm(label, tuple(with_seed(each, at) for at, each in enumerate(jobs)))
        for label, jobs in (("none", baseline.jobs), (mine.label, mine.jobs))
    ]
    return judge(sides[1], sides[0], measure, one_look(Design(), sides))


def descriptions(differences: Sequence[Difference]) -> list[str]:
    return [text for _, text in differences]


def job_row(arm: str, billed: float, repeat: int = 0, **columns: Any) -> dict[str, Any]:
    """Return the row of a job that trained 2,000 samples with accuracy 0.9, for a table of jobs."""
    values = {
        "run_id": f"{arm} {repeat} {billed}",
        "status": "FINISHED",
        "arm": arm,
        "baseline": "true" if arm == "none" else "false",
        "repeat": str(repeat),
        "samples": 2000.0,
        "eval_accuracy": 0.9,
        "cost_billable_seconds": billed,
        "cost_billable_instance_seconds": billed,
    }
    return {**values, **columns}
