"""Our entry point passes arguments in every form, and replaces itself by programs of every kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.hub.secrets_server import keeping
from training.contract.job_spec import ENTRY_KEY, JobSpec, ScriptEntry
from training.contract.request import MAX_VALUE, build
from training.scripts import trainfare_entry
from training.scripts.source import ENTRY
from training.services.supervision import toolkit

SHOWS = "import json, os, sys; print(json.dumps([sys.argv, __name__, os.environ['SM_USER_ARGS'], sys.path[0]]))"

MPI4PY = """\
import runpy, sys
try:
    runpy.run_path(sys.argv.pop(1), run_name="__main__")
except OSError:
    print("aborts")
"""
FLAG = ScriptEntry(flags=True)


@pytest.mark.parametrize(
    ("value", "settings", "words"),
    [
        ("a b", {"style": "equals"}, ["--xx=a b"]),
        ("a b", {"style": "assign"}, ["xx=a b"]),
        (True, {"flags": True}, ["--xx"]),
        (False, {"flags": True, "style": "equals"}, []),
        (["a b", 1], {}, ["--xx", "a b", "1"]),
        (["a", 1], {"style": "equals"}, ["--xx=a,1"]),
        ({"b": 2, "a": True}, {"style": "equals", "flags": True}, ["--xx=a=True,b=2"]),
    ],
)
def test_each_form_has_its_words(value: Any, settings: dict[str, Any], words: list[str]) -> None:
    assert trainfare_entry.arguments({"xx": value}, settings) == words


def test_bare_words_come_first_and_without_settings_the_words_are_those_of_the_toolkit() -> None:
    settings = {"words": ["f", "3"]}
    assert trainfare_entry.arguments({"b": 1, "a-a": 2}, settings) == ["f", "3", "--a-a", "2", "-b", "1"]
    values = {"b": 1.5, "a": "x y", "flag": True, "m": {"k": 1}, "none": None, "empty": ""}
    assert trainfare_entry.arguments(values, {}) == toolkit.arguments(values)


def run(
    folder: Path, entry: ScriptEntry, program: str, hyperparameters: dict[str, Any], *before: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a copy of our entry point in a folder, as the toolkit does."""
    (folder / ENTRY.name).write_bytes(ENTRY.read_bytes())
    environment = {"SM_HPS": json.dumps(hyperparameters), "PATH": os.environ["PATH"], **variables}
    environment["SM_FRAMEWORK_PARAMS"] = json.dumps({ENTRY_KEY: entry.settings(program)})
    command = [sys.executable, *before, ENTRY.name, "--what", "the toolkit passes"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("program", "file", "argv"),
    [
        ("train.py", "train.py", "train.py"),
        ("sub/train.py", "sub/train.py", "sub/train.py"),
        ("-m pkg.train", "pkg/train.py", "{folder}/pkg/train.py"),
    ],
)
def test_a_python_program_runs_as_if_started_directly(tmp_path: Path, program: str, file: str, argv: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(SHOWS)
    done = run(tmp_path, FLAG, program, {"cpu": True, "lr": 20})
    words, name, variable, folder = json.loads(done.stdout)
    assert words == [argv.format(folder=tmp_path), "--cpu", "--lr", "20"]
    assert (name, json.loads(variable)) == ("__main__", ["--cpu", "--lr", "20"])
    assert folder == str(tmp_path if program.startswith("-m") else (tmp_path / file).parent)


def test_a_shell_script_gets_its_words_unchanged_and_ends_with_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text('for each in "$@"; do echo "<$each>"; done; exit 7')
    done = run(tmp_path, FLAG, "run.sh", {"cpu": True, "text": "it's $HOME; *"})
    assert (done.returncode, done.stdout.splitlines()) == (7, ["<--cpu>", "<--text>", "<it's $HOME; *>"])


def test_under_mpi4py_the_script_runs_in_the_same_process(tmp_path: Path) -> None:
    """`python -m mpi4py` aborts all processes when an exception reaches it, so nothing may replace the process."""
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").touch()
    (tmp_path / "mpi4py" / "__main__.py").write_text(MPI4PY)
    (tmp_path / "train.py").write_text(SHOWS + "\nraise OSError")
    lines = run(tmp_path, FLAG, "train.py", {"cpu": True}, "-m", "mpi4py").stdout.splitlines()
    assert json.loads(lines[0])[:2] == [["train.py", "--cpu"], "__main__"]
    assert lines[1:] == ["aborts"]


CONFIG = {
    "lr": 3e-05,
    "small": -1.5e-10,
    "steps": 100,
    "bf16": True,
    "says": "on: 'ü' \"x\" # é \n\t😀",
    "betas": [0.9, 1e16],
    "datasets": [{"path": "a.json", "split": "no"}],
    "optimizer": {"name": "adamw", "empty": {}, "none": []},
}


def test_a_file_is_written_in_the_format_of_its_suffix(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('started')")
    (tmp_path / "b.yml").write_text("of the source")
    with_null = {**CONFIG, "resume": None}
    files = {"conf/a.yaml": with_null, "b.yml": [1, None], "c.json": with_null, "d.toml": with_null, "e.sh": "ls\n"}
    assert run(tmp_path, ScriptEntry(files=files), "train.py", {}).stdout == "started\n"
    assert yaml.safe_load((tmp_path / "conf" / "a.yaml").read_text()) == with_null
    assert yaml.safe_load((tmp_path / "b.yml").read_text()) == [1, None]
    assert json.loads((tmp_path / "c.json").read_text()) == with_null
    assert tomllib.loads((tmp_path / "d.toml").read_text()) == CONFIG
    assert (tmp_path / "e.sh").read_text() == "ls\n"
    assert len(list(tmp_path.rglob("*.*"))) == 7  # with the program and our entry point


def test_a_long_file_is_sent_in_parts_that_sagemaker_accepts(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('started')")
    config = {f"key_{at}": [at, 'a "b" \\'] for at in range(300)}
    spec = JobSpec(
        name="job",
        hyperparameters={},
        channels={},
        source_uri="s3://bucket/sourcedir.tar.gz",
        output_uri="s3://bucket/output",
        instance_type="ml.g5.xlarge",
        is_script=True,
        entry=ScriptEntry(files={"a.yaml": config}),
    )
    hyperparameters = build(spec)["HyperParameters"]
    assert max(map(len, hyperparameters.values())) == MAX_VALUE
    parameters = toolkit.framework_parameters(toolkit.decoded(hyperparameters))
    (tmp_path / ENTRY.name).write_bytes(ENTRY.read_bytes())
    environment = {"SM_HPS": "{}", "PATH": os.environ["PATH"], "SM_FRAMEWORK_PARAMS": json.dumps(parameters)}
    subprocess.run([sys.executable, ENTRY.name], cwd=tmp_path, env=environment, check=True)
    assert yaml.safe_load((tmp_path / "a.yaml").read_text()) == config


def test_the_spawner_of_xla_calls_the_function_of_the_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\ndef _mp_fn(index): print(index, sys.argv)")
    spawner = tmp_path / "spawner.py"
    spawner.write_text("import sys; sys.path.insert(0, '.'); import trainfare_entry as t; t._mp_fn(1)")
    done = run(tmp_path, FLAG, "train.py", {"cpu": True}, str(spawner))
    assert done.stdout == "1 ['train.py', '--cpu']\n"


def test_a_secret_that_cannot_be_read_ends_the_job_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('started')")
    entry = ScriptEntry(secrets={"HF_TOKEN": "hub/token"})
    refused = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_ATTEMPTS": "1", "SAGEMAKER_REGION": "us-east-1"}
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    done = run(tmp_path, entry, "train.py", {}, **refused, **keys)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("script.secrets.HF_TOKEN: secret hub/token cannot be read: Could not connect")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("text", ["v3ry-secret\n", '{"HF_TOKEN": "v3ry-secret", "other": "x"}'])
def test_a_secret_reaches_the_script_and_nothing_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.py").write_text("import os; print(len(os.environ['HF_TOKEN']))")
    with keeping({"hub/token": text}) as url:
        variables = {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
        entry = ScriptEntry(secrets={"HF_TOKEN": "hub/token"})
        done = run(tmp_path, entry, "train.py", {}, SAGEMAKER_REGION="us-east-1", **variables)
    assert (done.stdout, done.stderr) == ("11\n", "")
