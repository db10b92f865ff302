"""The verbs as functions, in a notebook that is executed as Jupyter executes it."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.end_to_end.conftest import CommandLine
from tests.support.answers import checked

START = """
import sys
import trainfare

fields = {fields!r}
plan = trainfare.plan(**fields)
assert plan["would_start"]
result = trainfare.compare(**fields)
"""
ANSWERS = """
import json

names = set(json.loads({packages!r}))
print(json.dumps({{
    "ours": sorted(names & set(sys.modules)),
    "plan": plan.answer,
    "planned": len(plan.jobs),
    "compare": result.answer,
    "exit_code": result.exit_code,
    "verdicts": result.verdicts["outcome"].to_dict(),
    "jobs": result.jobs["hp_batch_size"].tolist(),
}}))
"""
ERROR = """
try:
    trainfare.train(compilr="none")
except trainfare.CommandError as error:
    print(error.exit_code, error)
"""


@pytest.mark.gate
@pytest.mark.slow
def test_a_notebook_compares_and_shows_the_report(
    command_line: CommandLine, reviews: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in command_line.environment.items():
        monkeypatch.setenv(name, value)
    fields = {name: str(value) if isinstance(value, Path) else value for name, value in reviews.items()}
    fields |= {"experiment": "demo", "compare": {"arms": {"eight": {}, "four": {"batch_size": 4}}, "repeats": 1}}
    root = Path(__file__).parents[2]
    packages = json.dumps([path.name for path in root.iterdir() if (path / "__init__.py").exists()])
    cells = [START.format(fields=fields), "result", ANSWERS.format(packages=packages), ERROR]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    resources = {"metadata": {"path": str(command_line.folder)}}
    NotebookClient(notebook, timeout=500, kernel_name="python3", resources=resources).execute()
    started, shown, answers, error = (cell.outputs for cell in notebook.cells)
    lines = "".join(output.text for output in started if output.output_type == "stream")
    assert "It would start." in lines
    assert "Report: " in lines
    statuses = [output.data["text/plain"] for output in started if output.output_type == "display_data"]
    assert set(statuses) == {""}, "the status lines are gone at the end"
    [page] = shown
    assert page.data["text/html"].startswith("<iframe srcdoc=")
    assert "&lt;svg" in page.data["text/html"]
    found = json.loads(answers[0].text)
    assert found["ours"] == []
    checked("plan", json.dumps(found["plan"]))
    checked("comparison", json.dumps(found["compare"]))
    assert found["plan"]["jobs"][0]["request"]["TrainingJobName"]
    assert (found["planned"], found["exit_code"]) == (2, 0)
    assert found["verdicts"] == {"four": found["compare"]["contrasts"][0]["outcome"]}
    assert sorted(found["jobs"]) == [4.0, 8.0]
    assert error[-1].text.endswith("2 unknown field 'compilr' (override compilr=none). Did you mean 'compiler'?\n")
