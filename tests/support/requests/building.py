"""Build SageMaker's request from an experiment in the steps of the command line: plan, upload, build."""

from __future__ import annotations

from pathlib import Path

from experiments.planning.inputs import Inputs, script_inputs
from experiments.planning.load import Arm, arms, load
from experiments.planning.plan import plan
from experiments.running.launch import open_service_context
from tests.support.aws.account import Account
from training.contract.request import build
from training.contract.service import Request, ServiceContext
from training.staging.tokens.staged import ChannelDescription, DataDescription, LengthStatistics, Staged

GROUP = "golden"


class Built:
    """Builds requests for the account in the environment variables."""

    def __init__(self, home: Path, account: Account) -> None:
        self._home, self._account = home, account
        self.log_lines: list[str] = []
        """Messages shown to the user."""
        # Opening a context takes half a second, so requests with equal `aws` fields share one.
        self._contexts: dict[str, ServiceContext] = {}

    def __call__(self, name: str, arm: str | None = None, **overrides: str) -> Request:
        """Return the request of the job that `train` starts: `built("demo", **{"aws.bucket": "bucket"})`.

        With the name of an arm, return that of its first job in a comparison.
        """
        experiment = load(name, overrides)
        if arm is not None:
            [experiment] = [each.experiment for each in arms(experiment) if each.label == arm]
        key = experiment.aws.model_dump_json()
        if key not in self._contexts:
            self._contexts[key] = open_service_context(experiment, self.log_lines.append)
        alone = Arm(label="alone", experiment=experiment, is_baseline=True)
        is_packaged = str(experiment.model).startswith("package:")
        has_model = is_packaged or experiment.model_type is not None
        inputs: Inputs = (
            script_inputs(experiment, self._home)
            if experiment.script
            else staged(self._home, "rows", has_model=has_model)
        )
        [job] = plan(GROUP, name, [alone], 1, [inputs], self._home)
        return build(self._contexts[key].upload(job.spec))

    def put(self, key: str) -> None:
        """Put an object into the bucket."""
        self._account.clients["s3"].put_object(Bucket="bucket", Key=key, Body=b"rows")


def staged(home: Path, rows: str, *, has_model: bool) -> Staged:
    """Return a staging without real data or a tokenizer, which would require a network."""
    names = ("train", "validation", *(("model",) if has_model else ()))
    for name in names:
        (home / "staged" / name).mkdir(parents=True, exist_ok=True)
        (home / "staged" / name / "data.parquet").write_text(f"{name}: {rows}")
    return Staged(
        key="k" * 32,
        channels={name: (home / "staged" / name).as_uri() for name in names},
        description=DataDescription(
            task=None,
            max_length=None,
            label_names=(),
            train=ChannelDescription(
                rows=1000,
                lengths=LengthStatistics(
                    mean_tokens=50.0, median_tokens=50, p95_tokens=100, max_tokens=128, at_max_length_share=0.0
                ),
            ),
            validation=ChannelDescription(rows=100),
        ),
        bucket_lengths=(64, 128),
        source="the workload's",
        digest="d" * 64,
        evaluation_key="e" * 32,
        cached=True,
    )
