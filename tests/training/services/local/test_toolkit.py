"""One job under the official sagemaker-training toolkit and under the local service: what did the script see?"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.services.following import ended
from tests.support.services.places import LocalPlace
from tests.support.services.toolkit_env import toolkit_command
from training.contract.service import Request
from training.services.launcher import submit
from training.services.local import container

SEES = """
    import json, os, pathlib, sys
    seen = {
        "argv": sys.argv,
        "folder": os.getcwd(),
        "files": sorted(os.listdir(".")),
        "environment": dict(os.environ),
        "configuration": {
            path.name: json.loads(path.read_text())
            for path in pathlib.Path(os.environ["SM_INPUT_CONFIG_DIR"]).iterdir()
        },
    }
    pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"], "seen.json").write_text(json.dumps(seen))
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
    "PYTHONPATH": "the toolkit passes on the search path of its own environment; here the script has ours",
    "LC_CTYPE": "set by the interpreter itself where the locale is C",
}
"""Variables that the toolkit sets and the local service does not, or otherwise, and why."""

ADDED = {
    "PYTHONUNBUFFERED": "as in the deep-learning containers, around the toolkit",
    "PYTHONDONTWRITEBYTECODE": "as in the deep-learning containers, around the toolkit",
    "PYTHONIOENCODING": "as in the deep-learning containers, around the toolkit",
    "OMP_NUM_THREADS": "the job's share of the machine",
}
"""Variables that the local service sets and the toolkit does not, and why."""


def under_the_toolkit(request: Request, base: Path) -> tuple[dict[str, str], subprocess.CompletedProcess[bytes]]:
    """Run the request's job by the toolkit's own command, in folders laid out as a container's."""
    container.lay_out(base, container.relocate_paths(request, base))
    given = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "AWS_DEFAULT_REGION": "us-east-1"}
    given |= {"SAGEMAKER_BASE_DIR": str(base), "TRAINING_JOB_NAME": request["TrainingJobName"]}
    given |= request["Environment"]
    return given, subprocess.run(toolkit_command(), env=given, check=False, capture_output=True, timeout=240)


def relocated(value: Any, base: str) -> Any:
    """Return what a script saw, also the JSON within it, with the container's folder where SageMaker has it."""
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
@pytest.mark.parametrize("framework", [{}, {"sagemaker_distribution_instance_groups": '["homogeneousCluster"]'}])
def test_the_script_sees_the_same(place: LocalPlace, tmp_path: Path, framework: dict[str, str]) -> None:
    channels = {name: place.folder("data", {"rows.jsonl": "{}"}) for name in ("train", "test")}
    environment = {"TRAINFARE_CORES": str(os.cpu_count()), "GREETING": "hello é"}
    request = place.request(SEES, hyperparameters=HYPERPARAMETERS, channels=channels, environment=environment)
    request["HyperParameters"] |= framework
    base = tmp_path / "opt" / "ml"
    given, ran = under_the_toolkit(request, base)
    assert ran.returncode == 0, ran.stderr
    theirs = relocated(json.loads((base / "output" / "data" / "seen.json").read_bytes()), str(base))

    description, lines = ended(submit(place.service, request))
    assert description["TrainingJobStatus"] == "Completed", lines
    own_base = str((place.job_folder() / "opt" / "ml").resolve())
    ours = relocated(json.loads(place.service.fetch_output("job", "seen.json") or b""), own_base)

    for part in ("argv", "folder", "files", "configuration"):
        assert ours[part] == theirs[part], part
    set_by_them = theirs["environment"].keys() - given.keys() | {"SAGEMAKER_BASE_DIR", "TRAINING_JOB_NAME"}
    set_by_us = {name for name in ours["environment"] if not inherited(name)} - request["Environment"].keys()
    assert set_by_us - set_by_them - DIFFERENCES.keys() == ADDED.keys()
    for name in sorted(set_by_them - DIFFERENCES.keys()):
        assert ours["environment"].get(name) == theirs["environment"][name], name


@pytest.mark.slow
@pytest.mark.usefixtures("every_core")
def test_a_failure_is_worded_the_same(place: LocalPlace, tmp_path: Path) -> None:
    request = place.request("import sys; sys.exit(7)")
    base = tmp_path / "opt" / "ml"
    _, ran = under_the_toolkit(request, base)
    assert ran.returncode == 1
    theirs = (base / "output" / "failure").read_text().splitlines()
    description, _ = ended(submit(place.service, request))
    # SageMaker puts the kind of error before what the toolkit wrote. The toolkit adds the command, the service not.
    assert (
        description["FailureReason"].splitlines()[0]
        == "AlgorithmError: " + theirs[0]
        == "AlgorithmError: ExecuteUserScriptError:"
    )
    assert description["FailureReason"].splitlines()[1:] == theirs[1:3] == ["ExitCode 7", 'ErrorMessage ""']
