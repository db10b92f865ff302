"""Arms and verdicts of worked examples."""

from collections.abc import Sequence

from judging.quality import MEASURES
from reports.comparison.arms import Arm, Job
from reports.comparison.equal_work import Difference

ACCURACY = MEASURES[0]


def job(billed: float, *, cache: str = "off", status: str = "FINISHED", **numbers: float) -> Job:
    numbers_of_job = {"cost_billable_instance_seconds": billed, "samples": 2000.0, "eval_accuracy": 0.9, **numbers}
    return Job(
        run_id="r",
        experiment_id="1",
        name="j",
        status=status,
        arm="a",
        is_baseline=False,
        repeat="0",
        cache_state=cache,
        text={"device": "cpu", "data_key": "k", "instance_type": "local"},
        numbers={name: value for name, value in numbers_of_job.items() if value == value},
    )


def arm(*billed: float, label: str = "inductor", **numbers: float) -> Arm:
    return Arm(label, tuple(job(seconds, **numbers) for seconds in billed))


def descriptions(differences: Sequence[Difference]) -> list[str]:
    return [difference.description for difference in differences]
