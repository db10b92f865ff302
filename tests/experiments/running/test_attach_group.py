"""`attach --group` starts what this state folder planned; for any other plan it asks: real jobs, store and terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.__main__ import main
from experiments.planning.load import Arm, load
from experiments.planning.plan import job
from experiments.running.attach import check_secrets
from experiments.running.scheduler import start_jobs
from tests.conftest import ROOT
from tests.support.aws.account import Account
from tests.support.requests.building import staged
from tests.support.services.following import ended
from tests.support.services.harness import SageMakerHarness
from tests.support.state import LATER_DATA, OTHER_DATA, State
from tests.support.tracking.planned_jobs import TRAIN_PY, planned_as
from tracking.groups.group import open_group
from tracking.groups.plan_file import write_plan
from tracking.groups.planned_job import PlannedJob, ScriptPlan
from tracking.server.store import open_store
from training.contract.errors import InputError
from training.contract.request import build
from training.services.launcher import Job
from training.services.supervision.container import SECRET_VARIABLES

Change = Callable[[dict[str, Any]], None]


def group_of(state: State) -> str:
    """Start a group whose first job was stopped and whose second job has not started, and return its id."""
    state.stage(OTHER_DATA, LATER_DATA)
    name = state.running()
    state.service.stop(name)
    ended(Job(state.service, name))
    return name.rsplit("-", 1)[0]


def change_plan(state: State, change: Change) -> None:
    """Change the plan of the newest group on the server, as any user with EDIT on the experiment can."""
    run_id, client = state.groups[-1].run_id, state.store.client
    plan = json.loads(Path(client.download_artifacts(run_id, "plan.json")).read_text())
    change(plan)
    client.log_text(run_id, json.dumps(plan), "plan.json")


def plant(state: State) -> Change:
    """Return a change that gives all jobs the attacker's source and a variable with a terminal's escape sequence."""
    source = state.folder / "planted"
    source.mkdir()
    (source / "train.py").write_text(f"open({str(marker(state))!r}, 'w')\n")

    def change(plan: dict[str, Any]) -> None:
        for each in plan["jobs"]:
            each["spec"] |= {"source_uri": source.as_uri(), "environment": {"PLANTED": "\x1b[2K1"}}

    return change


def marker(state: State) -> Path:
    return state.folder / "planted-ran"


def foreign(state: State, group_id: str) -> str:
    return (
        f"No command that uses the state folder {state.home} made the plan of group {group_id}: it comes from another "
        "machine, or somebody changed it."
    )


def test_a_plan_of_others_is_shown_and_without_a_terminal_not_started(
    state: State, capsys: pytest.CaptureFixture[str]
) -> None:
    group = group_of(state)
    change_plan(state, plant(state))
    before = [each["TrainingJobName"] for each in state.service.jobs()]
    assert main(["attach", "--group", group]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"error: {foreign(state, group)} There is no terminal")
    assert "--trust" in printed.err
    assert len(printed.err.splitlines()) == 1
    assert [each["TrainingJobName"] for each in state.service.jobs()] == before
    assert not marker(state).exists()
    assert "  command: python train.py --steps 2\n" in printed.out
    assert f"  source: {(state.folder / 'planted').as_uri()}\n" in printed.out
    assert f"  channels: train = {(state.home / 'staged').as_uri()}/{LATER_DATA}/train\n" in printed.out
    assert "  variables: PLANTED = \\x1b[2K1\n" in printed.out


def test_the_plan_of_this_state_folder_starts_without_a_question(
    state: State, capsys: pytest.CaptureFixture[str]
) -> None:
    group = group_of(state)
    assert main(["attach", "--group", group]) == 130  # a person stopped the first job
    assert "made the plan of group" not in capsys.readouterr().out
    assert state.service.describe(f"{group}-a1r0")["TrainingJobStatus"] == "Completed"


def test_trust_starts_a_plan_of_others(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    group = group_of(state)
    change_plan(state, plant(state))
    assert main(["attach", "--group", group, "--trust"]) == 130
    assert "  variables: PLANTED = \\x1b[2K1\n" in capsys.readouterr().out
    assert marker(state).exists()


def test_running_jobs_are_followed_whatever_the_plan(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    group = state.open()
    jobs = [state.planned(f"{group.id}-a0r0", steps=3)]
    write_plan(state.store, group, jobs, 1, state.home)
    state.service.create(build(jobs[0].spec))
    change_plan(state, plant(state))
    assert main(["attach", "--group", group.id]) == 0
    assert not marker(state).exists()


def test_a_plan_of_others_pushes_nothing_without_trust(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    """The model would be pushed with this user's token."""
    group = state.open()
    jobs = [state.planned(f"{group.id}-a0r0", steps=3)]
    write_plan(state.store, group, jobs, 1, state.home)
    state.service.create(build(jobs[0].spec))

    def push(plan: dict[str, Any]) -> None:
        plan["jobs"][0]["experiment_yaml"] = "push_to_hub: {repository: other/theirs}"

    change_plan(state, push)
    assert main(["attach", "--group", group.id]) == 2
    assert capsys.readouterr().err == (
        f"error: {foreign(state, group.id)} It pushes its model to other/theirs: add --trust if you trust it.\n"
    )


def test_another_attempt_at_sagemaker_is_a_start(
    account: Account,
    tracking_uri: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    harness, store = SageMakerHarness(tmp_path, account), open_store(tracking_uri)
    account.jobs.faults.no_capacity.add("ml.g4dn.xlarge")
    group = open_group(store, experiment_name="demo", verb="train", key="k")
    name = f"{group.id}-a0r0"
    jobs = [planned_as(harness.spec(TRAIN_PY, name=name, hyperparameters={"steps": 2}), "none")]
    write_plan(store, group, jobs, 1, tmp_path / "elsewhere")
    start_jobs(store, harness.service, group, jobs)
    assert ended(Job(harness.service, name))[0]["TrainingJobStatus"] == "Failed"
    assert main(["attach", "--group", group.id]) == 2
    assert "--trust" in capsys.readouterr().err
    assert account.jobs.names() == [name]


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("y", 130)])
def test_a_terminal_is_asked(state: State, answer: str, code: int) -> None:
    group = group_of(state)
    change_plan(state, plant(state))
    terminal, end = pty.openpty()
    command = [sys.executable, "-m", "experiments", "attach", "--group", group]
    with subprocess.Popen(command, cwd=ROOT, env=os.environ, stdin=end, stdout=end, stderr=end) as process:
        os.close(end)
        os.write(terminal, f"{answer}\n".encode())
        printed = b""
        with suppress(OSError):  # the end of a terminal
            while part := os.read(terminal, 4096):
                printed += part
    os.close(terminal)
    assert process.returncode == code, printed.decode()
    assert b"Start it? [y/N]" in printed
    assert marker(state).exists() == (answer == "y")


@pytest.fixture
def planned(tmp_path: Path) -> PlannedJob:
    """A job of a script that reads two secrets."""
    arm = Arm(label="none", experiment=load("demo", {}), is_baseline=True)
    made = job("study-a0r0", "study", arm, 0, staged(tmp_path, "rows", has_model=False), tmp_path)
    spec = made.spec.model_copy(update={"environment": {SECRET_VARIABLES: "TOKEN,OTHER"}})
    return replace(made, spec=spec, script=ScriptPlan(regexes={}, hyperparameters={}))


def test_only_a_script_that_has_not_started_needs_its_secrets(planned: PlannedJob) -> None:
    check_secrets([planned], set(), {"TOKEN": "a", "OTHER": "b"})
    with pytest.raises(InputError, match="need the environment variable OTHER, a secret of their script"):
        check_secrets([planned], set(), {"TOKEN": "a", "OTHER": " "})
    check_secrets([planned], {"study-a0r0"}, {})
    check_secrets([replace(planned, script=None)], set(), {})
