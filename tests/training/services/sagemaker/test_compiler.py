"""SageMaker Training Compiler: a job counts as compiled only if its log shows that the compiler ran."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow.entities import Run

from reports.formats.figures import summary
from reports.formats.markdown import markdown
from reports.render import render
from tests.support.aws.account import BUCKET, Account
from tests.support.services.harness import SageMakerHarness
from tests.support.tracking.planned_jobs import TRAIN_PY, planned_as
from tests.training.services.sagemaker.conftest import Terminal
from tracking.following.group_session import run_jobs
from tracking.groups.group import child_runs, open_group
from tracking.server.store import open_store

IMAGE = (
    "763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-trcomp-training:"
    "1.11.0-transformers4.21.1-gpu-py38-cu113-ubuntu20.04"
)
INDUCTOR = {"compiler": "inductor", "padding": "max_length", "drop_last": "true"}


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


def objects(account: Account) -> dict[str, bytes]:
    """Return the stored programs by key."""
    listed = account.clients["s3"].list_objects_v2(Bucket=BUCKET, Prefix="trainfare/compiled/").get("Contents", [])
    keys = [str(each["Key"]) for each in listed]
    return {key: account.clients["s3"].get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}


def state(run: Run) -> str | None:
    tag: str | None = run.data.tags.get("platform.cache_state")
    return tag


def trained(terminal: Terminal, **fields: object) -> tuple[Run, str]:
    """Train once, and return the newest run and the output."""
    output = terminal("train", {**INDUCTOR, **{name.replace("__", "."): value for name, value in fields.items()}})
    assert output.code == 0, output
    return terminal.runs()[-1], output.out + output.error


@pytest.mark.slow
def test_a_second_job_of_the_setting_is_warm_and_another_setting_is_cold(terminal: Terminal, account: Account) -> None:
    first, text = trained(terminal, seed=1)
    assert state(first) == "cold"
    assert "no compiled programs are stored for this setting yet" in text
    assert "stored the compiled programs for later jobs" in text
    [(key, content)] = objects(account).items()
    second, text = trained(terminal, seed=2)
    assert state(second) == "warm"
    assert "loaded compiled programs of an earlier job" in text
    assert objects(account) == {key: content}  # a warm job stores nothing
    # Times are not compared: on a CPU, the C++ compiler runs in a warm job too.
    other, _ = trained(terminal, max_length=8)
    assert state(other) == "cold"
    assert len(objects(account)) == 2
