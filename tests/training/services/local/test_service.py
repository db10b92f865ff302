"""Behaviour of the local service only: its folders, its environment and its checks."""

from __future__ import annotations

import json
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.layout.imports import ORDER
from tests.support.services.following import ended, until_unsupervised
from tests.support.services.harness import LocalHarness
from tests.support.shadowing_folder import ShadowingFolder
from training.contract.errors import InputError
from training.contract.service import Request
from training.services.launcher import submit
from training.services.supervision.supervise import FIELD, MEASURE_VARIABLE

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


class TestFolders:
    def test_a_second_job_finds_the_checkpoints_of_the_first(self, harness: LocalHarness, tmp_path: Path) -> None:
        script = """
            import os, pathlib
            file = pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"], "checkpoints", "step")
            print(file.read_text() if file.exists() else "none"); file.write_text("40")
        """
        uri = (tmp_path / "kept é").as_uri()
        outputs = [
            ended(submit(harness.service, harness.request(script, name=name, checkpoint_uri=uri)))[1]
            for name in ("a", "b")
        ]
        assert outputs == [["none"], ["40"]]
        assert (tmp_path / "kept é" / "step").read_text() == "40"

    def test_data_is_linked_the_source_copied_and_both_are_private(self, harness: LocalHarness) -> None:
        data = harness.folder("data", {"big": "x"})
        file = harness.folder("data", {"rows.jsonl": "{}"}) + "/rows.jsonl"
        script = "import os; open('changed', 'w').close(); print(os.listdir(os.environ['SM_CHANNEL_ONE']))"
        _, lines = ended(submit(harness.service, harness.request(script, channels={"train": data, "one": file})))
        assert lines == ["['rows.jsonl']"]  # a channel of one file is a folder with that file
        base = harness.job_folder() / "opt" / "ml"
        assert (base / "input" / "data" / "train").is_symlink()
        assert (base / "code" / "changed").exists()
        assert sorted(path.name for path in (harness.root / "source-0").iterdir()) == ["train.py"]
        assert harness.job_folder().stat().st_mode & 0o077 == 0
        (harness.job_folder() / "request.json").unlink()
        assert harness.service.jobs() == []  # the job is being deleted

    def test_an_invalid_source_fails_the_job(self, harness: LocalHarness) -> None:
        request = harness.request("pass")
        request["HyperParameters"]["sagemaker_submit_directory"] = json.dumps(harness.folder("empty", {}))
        description, _ = ended(submit(harness.service, request))
        assert description["FailureReason"].startswith("ClientError: ")
        assert "/empty-0' has no 'train.py'." in description["FailureReason"]

    def test_only_a_secret_variable_reaches_the_job_and_no_file(
        self, harness: LocalHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MY_TOKEN", "hf_very_secret")
        others = ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "MLFLOW_TRACKING_URI", "PYTHONPATH", "SM_MODEL_DIR")
        for name in others:
            monkeypatch.setenv(name, "hf_very_secret")
        monkeypatch.delenv("ABSENT", raising=False)
        script = "import os; print(len(os.environ['MY_TOKEN']), 'ABSENT' in os.environ); "
        script += "print([n for n, v in os.environ.items() if v.startswith('hf_')], 'PATH' in os.environ)"
        variables = {"TRAINFARE_SECRET_VARIABLES": "MY_TOKEN,ABSENT,SM_MODEL_DIR"}
        job = submit(harness.service, harness.request(script, environment=variables))
        description, lines = ended(job)
        assert lines == ["14 False", "['MY_TOKEN'] True"]
        assert "hf_very_secret" not in str(description)
        until_unsupervised(harness.root)
        files = [path for path in harness.root.rglob("*") if path.is_file()]
        assert files
        assert not [path for path in files if b"hf_very_secret" in path.read_bytes()]


class TestPrograms:
    """Programs of every kind that SageMaker's toolkit starts."""

    def started(self, harness: LocalHarness, program: str, files: dict[str, str], **fields: Any) -> list[str]:
        request = harness.request("pass", program=program, **fields)
        request["HyperParameters"]["sagemaker_submit_directory"] = json.dumps(harness.folder("own", files))
        description, lines = ended(submit(harness.service, request))
        assert description["TrainingJobStatus"] == "Completed", lines
        return lines

    def test_a_shell_script_another_executable_and_a_module_of_a_package(self, harness: LocalHarness) -> None:
        text = "echo \"$1=$2\"; python -c 'import sys; print(sys.executable)'"
        lines = self.started(harness, "run.sh", {"run.sh": text}, hyperparameters={"text": "it's; $HOME"})
        assert lines == ["--text=it's; $HOME", sys.executable]
        assert self.started(harness, "run", {"run": f"#!{sys.executable}\nprint(1)"}, name="second") == ["1"]
        files = {"setup.py": "", "train.py": "print(__spec__.name)"}
        assert self.started(harness, "train.py", files, name="third") == ["train"]

    def test_another_interpreter(self, harness: LocalHarness, tmp_path: Path) -> None:
        venv.create(tmp_path / "other", symlinks=True)
        python = str(tmp_path / "other" / "bin" / "python")
        show = "import sys; print(sys.prefix, flush=True)"
        text = f"{show}; import subprocess; subprocess.run(['python', '-c', {show!r}])"
        lines = self.started(harness, "own.py", {"own.py": text}, environment={"TRAINFARE_PYTHON": python})
        assert lines == [str(tmp_path / "other")] * 2

    def test_container_paths_are_replaced_in_lists_mappings_and_variables(self, harness: LocalHarness) -> None:
        script = "import json, os; print(json.dumps([json.loads(os.environ['SM_HPS']), os.environ['HERE']]))"
        hyperparameters = {"files": ["/opt/ml/model", "/opt/mlx"], "folders": {"a": "/opt/ml/model"}}
        request = harness.request(script, hyperparameters=hyperparameters, environment={"HERE": "/opt/ml/model"})
        _, lines = ended(submit(harness.service, request))
        model = str(harness.job_folder().resolve() / "opt" / "ml" / "model")
        assert json.loads(lines[0]) == [{"files": [model, "/opt/mlx"], "folders": {"a": model}}, model]


INVALID: list[tuple[dict[str, Any], str]] = [
    ({"environment": {"TRAINFARE_CORES": "0"}}, "TRAINFARE_CORES is '0'; it must be a whole number from 1 to"),
    ({"environment": {"TRAINFARE_MEMORY_GIB": "-1"}}, "TRAINFARE_MEMORY_GIB is '-1'; it must be a number"),
    ({"environment": {"TRAINFARE_STOP_GRACE_SECONDS": "nan"}}, "TRAINFARE_STOP_GRACE_SECONDS is 'nan'"),
    ({"compiler": "trcomp"}, "Compilers 'trcomp' and 'trcomp-off' exist only in SageMaker's images"),
    ({"instance_count": 2}, "instance_count is 2; it must be 1 on the local service"),
    ({"program": "run.sh", "devices": 2}, "sagemaker_program is 'run.sh'; torchrun starts only Python files"),
]


class TestInvalidRequests:
    def test_an_invalid_request_creates_nothing(self, harness: LocalHarness) -> None:
        for fields, message in INVALID:
            with pytest.raises(InputError, match=message):
                harness.service.create(harness.request("pass", **fields))
        for name in ("../job", "a b", "", "-a", "a" * 64):
            with pytest.raises(InputError, match="Job name"):
                harness.service.create(harness.request("pass") | {"TrainingJobName": name})
        for key, value in [("sagemaker_mpi_enabled", True)] + [
            ("sagemaker_program", program) for program in ("", "-c", "../train.py", "/bin/sh", "train py")
        ]:
            request = harness.request("pass")
            request["HyperParameters"][key] = json.dumps(value)
            with pytest.raises(InputError, match=key):
                harness.service.create(request)
        assert not harness.job_folder().parent.exists()


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
