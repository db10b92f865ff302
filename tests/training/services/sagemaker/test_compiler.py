"""SageMaker Training Compiler: a job counts as compiled only if its log shows that the compiler ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.formats.figures import summary
from reports.formats.markdown import markdown
from reports.render import render
from tests.support.aws.account import Account
from tests.support.services.harness import SageMakerHarness
from tests.support.tracking.planned_jobs import TRAIN_PY, planned_as
from tracking.following.group_session import run_jobs
from tracking.groups.group import child_runs, open_group
from tracking.server.store import open_store

IMAGE = (
    "763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-trcomp-training:"
    "1.11.0-transformers4.21.1-gpu-py38-cu113-ubuntu20.04"
)


@pytest.mark.slow
def test_a_compiler_that_did_not_run_is_not_compared(
    account: Account, tmp_path: Path, tracking_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    account.jobs.faults.compiler_works = False
    harness, store = SageMakerHarness(tmp_path, account), open_store(tracking_uri)
    group = open_group(store, experiment_name="demo", verb="compare", key="k1")
    fields = {"image": IMAGE, "hyperparameters": {"steps": 3}}
    jobs = [
        planned_as(harness.spec(TRAIN_PY, name=arm, compiler=arm, **fields), arm, is_baseline=arm == "trcomp-off")
        for arm in ("trcomp-off", "trcomp")
    ]
    messages: list[str] = []
    outcomes = run_jobs(store, harness.service, group, jobs, parallel=2, echo=messages.append)
    assert [outcome.failure for outcome in outcomes] == [None, None]
    tags = child_runs(store, group)["trcomp"].data.tags
    expected = {"platform.compiler": "trcomp", "platform.compiler_active": "false", "platform.image": IMAGE}
    assert expected.items() <= tags.items()
    sentence = "its log does not show that SageMaker Training Compiler ran, so it counts as not compiled"
    assert "\n".join(messages).count(sentence) == 1
    assert sentence in tags["mlflow.note.content"]
    report = render(store.client, group.id, "demo")
    [contrast] = summary(report)["contrasts"]
    assert (contrast["outcome"], contrast["break_even"]) == ("not comparable", {})
    assert f"“trcomp” does not match its setting: {sentence}." in markdown(report)
