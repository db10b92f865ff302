"""A script sees the same under the official sagemaker-training toolkit as under the local service."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest

from tests.support.services.following import ended
from tests.support.services.harness import LocalHarness
from tests.support.services.toolkit_env import toolkit_command
from training.contract.failures import failure_of
from training.contract.job_spec import ScriptEntry
from training.contract.service import Request
from training.scripts.source import ENTRY
from training.services.launcher import submit
from training.services.supervision import container

RECORDS_ITS_VIEW = """
    import json, os, pathlib, sys
    view = {
        "argv": sys.argv,
        "folder": os.getcwd(),
        "files": sorted(os.listdir(".")),
        "environment": dict(os.environ),
        "configuration": {
            path.name: json.loads(path.read_text())
            for path in pathlib.Path(os.environ["SM_INPUT_CONFIG_DIR"]).iterdir()
        },
    }
    pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"], "view.json").write_text(json.dumps(view))
    sys.exit(int(os.environ.get("EXIT_WITH", 0)))
"""

HYPERPARAMETERS = {
    "model_name": 'it\'s "a" b é $HOME',
    "epochs": 3,
    "learning-rate": 4.875e-05,
    "fp16": True,
    "empty": "",
    "x": -1,
    "looks_like": "--help",
    "path": "/opt/ml/checkpoints",
}

DIFFERENCES = {
    "PYTHONPATH": "the toolkit passes on its own search path; the local service passes on ours",
    "LC_CTYPE": "set by the interpreter itself if the locale is C",
}
"""Variables that the local service does not set, or sets to different values, each with the reason."""

ADDED = {
    "PYTHONUNBUFFERED": "as in the deep-learning containers, around the toolkit",
    "PYTHONDONTWRITEBYTECODE": "as in the deep-learning containers, around the toolkit",
    "PYTHONIOENCODING": "as in the deep-learning containers, around the toolkit",
    "OMP_NUM_THREADS": "the job's share of the machine",
}
"""Variables that only the local service sets, each with the reason."""
CASES: dict[str, tuple[str, dict[str, Any], ScriptEntry | None]] = {
    "a program": ("train.py", HYPERPARAMETERS, None),
    "our entry point": (
        "train.py",
        {"cpu": True, "lr": 20, "files": ["a b", "c"], "opts": {"a": 1, "b": "x"}, "off": False},
        ScriptEntry(style="equals", flags=True, words=("x.py", "--no-amp")),
    ),
    "a module": ("-m pkg.inner", {"a-b": "x"}, ScriptEntry()),
    "a shell script": ("run.sh", {"text": "it's $HOME; *", "list": [1, 2], "none": None}, None),
}
CORES = {"TRAINFARE_CORES": str(len(os.sched_getaffinity(0))), "CUDA_VISIBLE_DEVICES": ""}


def under_the_toolkit(request: Request, base: Path) -> tuple[dict[str, str], subprocess.CompletedProcess[bytes]]:
    """Run the request's job with the toolkit's own command, in a container's folders."""
    container.create_folders(base, container.relocate_paths(request, base))
    variables = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "AWS_DEFAULT_REGION": "us-east-1"}
    variables |= {"SAGEMAKER_BASE_DIR": str(base), "TRAINING_JOB_NAME": request["TrainingJobName"]}
    variables |= request["Environment"]
    return variables, subprocess.run(toolkit_command(), env=variables, check=False, capture_output=True, timeout=240)


def relocated(value: Any, base: str) -> Any:
    """Return a script's view with `base` replaced by `/opt/ml`, also in values that are JSON text."""
    if isinstance(value, dict):
        return {key: relocated(each, base) for key, each in value.items()}
    if isinstance(value, list):
        return [relocated(each, base) for each in value]
    if isinstance(value, str) and value[:1] in ("{", "[", '"'):
        return relocated(json.loads(value), base)
    return value.replace(base, "/opt/ml") if isinstance(value, str) else value


def inherited(name: str) -> bool:
    return name in container.INHERITED_NAMES or name.startswith(container.INHERITED_PREFIXES)


@pytest.mark.slow
@pytest.mark.usefixtures("every_core")
@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_program_sees_the_same(harness: LocalHarness, tmp_path: Path, name: str) -> None:
    program, hyperparameters, entry = CASES[name]
    text = textwrap.dedent(RECORDS_ITS_VIEW)
    request = harness.request(
        text,
        program=program,
        hyperparameters=hyperparameters,
        entry=entry,
        channels={name: harness.folder("data", {"rows.jsonl": "{}"}) for name in ("train", "test")},
        environment={"TRAINFARE_CORES": str(os.cpu_count()), "GREETING": "hello é"},
    )
    source = Path(unquote(urlparse(json.loads(request["HyperParameters"]["sagemaker_submit_directory"])).path))
    shutil.copy(ENTRY, source)
    (source / "pkg").mkdir()
    (source / "pkg" / "inner.py").write_text(text)
    (source / "run").write_text(f"#!{sys.executable}\n{text}")
    (source / "run.sh").write_text('exec ./run "$@"')
    (source / "run").chmod(0o755)
    base = tmp_path / "opt" / "ml"
    variables, ran = under_the_toolkit(request, base)
    assert ran.returncode == 0, ran.stderr
    theirs = relocated(json.loads((base / "output" / "data" / "view.json").read_bytes()), str(base))
    description, lines = ended(submit(harness.service, request))
    assert description["TrainingJobStatus"] == "Completed", lines
    own_base = str((harness.job_folder() / "opt" / "ml").resolve())
    ours = relocated(json.loads(harness.service.fetch_output("job", "view.json") or b""), own_base)
    for part in ("argv", "folder", "files", "configuration"):
        assert ours[part] == theirs[part], part
    set_by_them = theirs["environment"].keys() - variables.keys() | {"SAGEMAKER_BASE_DIR", "TRAINING_JOB_NAME"}
    for variable in sorted(set_by_them - DIFFERENCES.keys()):
        assert ours["environment"].get(variable) == theirs["environment"][variable], variable
    if name == "a program":
        set_by_us = {each for each in ours["environment"] if not inherited(each)} - request["Environment"].keys()
        assert set_by_us - set_by_them - DIFFERENCES.keys() == ADDED.keys()
    if name == "our entry point":
        assert ours["argv"] == ["train.py", "x.py", "--no-amp", "--cpu", "--files=a b,c", "--lr=20", "--opts=a=1,b=x"]


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.usefixtures("every_core")
def test_a_failure_has_the_same_reason(harness: LocalHarness, tmp_path: Path) -> None:
    request = harness.request("import sys; sys.exit(7)")
    base = tmp_path / "opt" / "ml"
    _, ran = under_the_toolkit(request, base)
    assert ran.returncode == 1
    theirs = (base / "output" / "failure").read_text().splitlines()
    description, _ = ended(submit(harness.service, request))
    # SageMaker puts the type of error before the toolkit's text. Only the toolkit adds the command.
    assert (
        description["FailureReason"].splitlines()[0]
        == "AlgorithmError: " + theirs[0]
        == "AlgorithmError: ExecuteUserScriptError:"
    )
    assert description["FailureReason"].splitlines()[1:] == theirs[1:3] == ["ExitCode 7", 'ErrorMessage ""']


@pytest.mark.gate
@pytest.mark.slow
def test_a_killed_process_ends_the_job(tmp_path: Path) -> None:
    harness = LocalHarness(tmp_path)
    script = """
        import os, signal, time
        if os.environ["RANK"] == "1": os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(300)
    """
    description, lines = ended(submit(harness.service, harness.request(script, devices=2, environment=CORES)))
    assert description["TrainingJobStatus"] == "Failed"
    assert "Killed by SIGKILL" in description["FailureReason"]
    assert failure_of(description, [], lines).failure_class == "Killed"
    assert not harness.has_processes("job")
