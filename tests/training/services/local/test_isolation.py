"""A job imports the packages of its script, and never ours. Our own processes import nothing of the user's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.layout.imports import ORDER
from tests.support.services.following import ended
from tests.support.services.harness import LocalHarness
from tests.support.shadowing_folder import ShadowingFolder
from training.contract.service import Request
from training.services.launcher import submit
from training.services.local.supervisor import FIELD, MEASURE_VARIABLE

SCRIPT = """
    import importlib.util, os
    import models, reports
    os.write(1, f"own: {{models.NAME}} {{reports.NAME}}\\n".encode())  # in one piece beside other processes
    visible = [name for name in {packages!r} if importlib.util.find_spec(name)]
    assert visible == ["models", "reports"], visible
    try:
        import experiments
    except ModuleNotFoundError as error:
        os.write(1, f"refused: {{error}}\\n".encode())
"""
LAUNCHERS = [pytest.param(1, id="plain"), pytest.param(2, id="torchrun", marks=pytest.mark.slow)]


def request_with_packages(harness: LocalHarness, devices: int) -> Request:
    """Return the request for a job whose source has its own packages `models` and `reports`."""
    script = SCRIPT.format(packages=sorted({*ORDER, "benchmarks"}))
    request = harness.request(script, devices=devices, environment={"TRAINFARE_CORES": "1", "CUDA_VISIBLE_DEVICES": ""})
    source = harness.root / "source-0"
    for package in ("models", "reports"):
        (source / package).mkdir()
        (source / package / "__init__.py").write_text(f"NAME = 'my {package}'\n")
    return request


@pytest.mark.parametrize("devices", LAUNCHERS)
def test_a_script_imports_its_own_packages_and_none_of_ours(
    harness: LocalHarness, devices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))  # a job does not inherit it
    description, lines = ended(submit(harness.service, request_with_packages(harness, devices)))
    assert description["TrainingJobStatus"] == "Completed", lines
    assert lines.count("own: my models my reports") == devices
    assert lines.count("refused: No module named 'experiments'") == devices


def test_the_current_folder_is_not_imported_from(
    harness: LocalHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ShadowingFolder(tmp_path / "users")
    monkeypatch.chdir(folder.path)
    monkeypatch.setenv("TRAINFARE_SLOTS", "slots")  # still relative to this folder
    request = harness.request("import json; print(json.dumps([1]))", environment={MEASURE_VARIABLE: "1"})
    description, lines = ended(submit(harness.service, request))
    assert (description["TrainingJobStatus"], lines) == ("Completed", ["[1]"])
    assert "machine/others_cpus" in description[FIELD]
    assert list(Path("slots").glob("core-*"))
    assert folder.imported() == ""
