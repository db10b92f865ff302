"""As on SageMaker, a job cannot import our packages: a script's own packages take precedence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.layout.imports import ORDER
from tests.support.services.following import ended
from tests.support.services.harness import LocalHarness
from training.contract.service import Request
from training.services.launcher import submit

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
def test_a_script_imports_its_own_packages_and_none_of_ours(harness: LocalHarness, devices: int) -> None:
    description, lines = ended(submit(harness.service, request_with_packages(harness, devices)))
    assert description["TrainingJobStatus"] == "Completed", lines
    assert lines.count("own: my models my reports") == devices
    assert lines.count("refused: No module named 'experiments'") == devices


def test_a_job_does_not_inherit_the_import_path(harness: LocalHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))
    description, lines = ended(submit(harness.service, request_with_packages(harness, 1)))
    assert description["TrainingJobStatus"] == "Completed", lines
    assert "refused: No module named 'experiments'" in lines
