"""SageMaker Training Compiler: a job counts as compiled only if its log shows that the compiler ran."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from mlflow.entities import Run

from reports.formats.html import html_page
from reports.formats.markdown import markdown
from reports.formats.summary import summary
from reports.formats.terminal import print_report
from reports.model.report import Report
from reports.render import render
from tests.support.aws.account import Account
from tests.support.services.harness import SageMakerHarness
from tests.support.tracking.planned_jobs import TRAIN_PY, planned_as
from tracking.following.group_session import run_jobs
from tracking.groups.group import child_runs, open_group
from tracking.server.store import Store, open_store

IMAGE = (
    "763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-trcomp-training:"
    "1.11.0-transformers4.21.1-gpu-py38-cu113-ubuntu20.04"
)
REPEATS = 2


class Compared:
    """Comparison of two repeats with and without the compiler, in the compiler's image, and its output."""

    def __init__(self, store: Store, harness: SageMakerHarness) -> None:
        group = open_group(store, experiment_name="demo", verb="compare", key="k1")
        jobs = [
            planned_as(
                harness.spec(TRAIN_PY, name=f"{arm}-{repeat}", compiler=arm, image=IMAGE, hyperparameters={"steps": 3}),
                arm,
                repeat,
                is_baseline=arm == "trcomp-off",
            )
            for repeat in range(REPEATS)
            for arm in ("trcomp-off", "trcomp")
        ]
        messages: list[str] = []
        outcomes = run_jobs(store, harness.service, group, jobs, parallel=4, echo=messages.append)
        assert [outcome.failure for outcome in outcomes] == [None] * len(jobs)
        self.messages = "\n".join(messages)
        self.runs: dict[str, Run] = child_runs(store, group)
        self.report: Report = render(store.client, group.id, "demo")
        stream = io.StringIO()
        print_report(self.report, stream)
        self.printed = " ".join(stream.getvalue().split())

    def tags(self, name: str, tag: str) -> set[str | None]:
        return {self.runs[f"{name}-{repeat}"].data.tags.get(tag) for repeat in range(REPEATS)}


@pytest.fixture
def harness(account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SageMakerHarness:
    monkeypatch.chdir(tmp_path)
    return SageMakerHarness(tmp_path, account)


@pytest.mark.slow
def test_a_compiler_that_ran_is_compared(harness: SageMakerHarness, tracking_uri: str) -> None:
    compared = Compared(open_store(tracking_uri), harness)
    assert compared.tags("trcomp", "platform.compiler_active") == {"true"}
    assert compared.tags("trcomp-off", "platform.compiler_active") == {"false"}
    assert compared.tags("trcomp", "platform.image") == {IMAGE}
    assert compared.tags("trcomp", "platform.compiler") == {"trcomp"}
    assert compared.tags("trcomp-off", "platform.compiler") == {"trcomp-off"}
    assert summary(compared.report)["contrasts"][0]["outcome"] != "not comparable"
    assert "does not show" not in compared.printed + compared.messages + html_page(compared.report)


@pytest.mark.slow
def test_a_compiler_that_did_not_run_is_not_compared(
    account: Account, harness: SageMakerHarness, tracking_uri: str
) -> None:
    account.jobs.faults.compiler_works = False
    compared = Compared(open_store(tracking_uri), harness)
    sentence = "its log does not show that SageMaker Training Compiler ran, so it counts as not compiled"
    assert compared.tags("trcomp", "platform.compiler_active") == {"false"}
    assert compared.messages.count(sentence) == REPEATS
    [contrast] = summary(compared.report)["contrasts"]
    assert (contrast["outcome"], contrast["break_even"]) == ("not comparable", {})
    assert summary(compared.report)["best"] is None
    assert compared.printed.startswith("No verdict: a compiler did not run as its setting says.")
    assert f"trcomp: not comparable “trcomp” does not match its setting: {sentence}." in compared.printed
    for form in (html_page(compared.report), markdown(compared.report)):
        assert sentence in form
    assert sentence in compared.runs["trcomp-0"].data.tags["mlflow.note.content"]
