"""The local service alone: what only a folder on this machine can show, and what it refuses."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.support.services.following import ended
from tests.support.services.places import LocalPlace
from training.contract.errors import InputError, ServiceError
from training.services.launcher import submit


class TestFolders:
    def test_checkpoints_are_kept_in_step(self, place: LocalPlace, tmp_path: Path) -> None:
        script = """
            import os, pathlib
            file = pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"], "checkpoints", "step")
            print(file.read_text() if file.exists() else "none"); file.write_text("40")
        """
        uri = (tmp_path / "kept é").as_uri()
        outputs = [
            ended(submit(place.service, place.request(script, name=name, checkpoint_uri=uri)))[1] for name in ("a", "b")
        ]
        assert outputs == [["none"], ["40"]]
        assert (tmp_path / "kept é" / "step").read_text() == "40"

    def test_data_is_linked_and_the_source_copied(self, place: LocalPlace) -> None:
        data = place.folder("data", {"big": "x"})
        request = place.request("open('changed', 'w').close()", channels={"train": data})
        ended(submit(place.service, request))
        base = place.job_folder() / "opt" / "ml"
        assert (base / "input" / "data" / "train").is_symlink()
        assert (base / "code" / "changed").exists()
        assert sorted(path.name for path in (place.root / "source-0").iterdir()) == ["train.py"]

    def test_a_channel_of_one_file_is_a_folder_with_it(self, place: LocalPlace) -> None:
        file = place.folder("data", {"rows.jsonl": "{}"}) + "/rows.jsonl"
        script = "import os; print(os.listdir(os.environ['SM_CHANNEL_TRAIN']))"
        _, lines = ended(submit(place.service, place.request(script, channels={"train": file})))
        assert lines == ["['rows.jsonl']"]

    def test_a_packed_source(self, place: LocalPlace, tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text("import helper")
        (tmp_path / "helper.py").write_text("print('packed')")
        with tarfile.open(tmp_path / "sourcedir.tar.gz", "w:gz") as tar:
            for name in ("train.py", "helper.py"):
                tar.add(tmp_path / name, arcname=name)
        request = place.request("pass")
        request["HyperParameters"]["sagemaker_submit_directory"] = json.dumps(str(tmp_path / "sourcedir.tar.gz"))
        assert ended(submit(place.service, request))[1] == ["packed"]

    @pytest.mark.parametrize(
        ("uri", "reason"),
        [
            ("/no/where", "source '/no/where' does not exist"),
            ("s3://bucket/sourcedir.tar.gz", "'s3://bucket/sourcedir.tar.gz' is not a local path"),
            ("relative", "'relative' is not a local path"),
        ],
    )
    def test_a_source_that_is_none(self, place: LocalPlace, uri: str, reason: str) -> None:
        request = place.request("pass")
        request["HyperParameters"]["sagemaker_submit_directory"] = json.dumps(uri)
        description, _ = ended(submit(place.service, request))
        assert description["FailureReason"].startswith("ClientError: ")
        assert reason in description["FailureReason"]

    def test_a_source_without_the_program(self, place: LocalPlace) -> None:
        request = place.request("pass")
        request["HyperParameters"]["sagemaker_submit_directory"] = json.dumps(place.folder("empty", {}))
        description, _ = ended(submit(place.service, request))
        assert description["FailureReason"].endswith("/empty-0' has no 'train.py'.")

    def test_the_environment_is_scrubbed(self, place: LocalPlace, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "MLFLOW_TRACKING_URI", "PYTHONPATH", "SM_MODEL_DIR"):
            monkeypatch.setenv(name, "secret")
        _, lines = ended(submit(place.service, place.request("import os; print(sorted(os.environ.items()))")))
        assert "secret" not in lines[0]
        assert "'PATH'" in lines[0]

    def test_a_secret_variable_reaches_the_job_and_no_file(
        self, place: LocalPlace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MY_TOKEN", "hf_very_secret")
        monkeypatch.setenv("SM_MODEL_DIR", "hf_very_secret")
        monkeypatch.delenv("ABSENT", raising=False)
        script = "import os; print(len(os.environ['MY_TOKEN']), 'ABSENT' in os.environ)"
        variables = {"TRAINFARE_SECRET_VARIABLES": "MY_TOKEN,ABSENT,SM_MODEL_DIR"}
        job = submit(place.service, place.request(script, environment=variables))
        description, lines = ended(job)
        assert lines == ["14 False"]
        assert "hf_very_secret" not in str(description)
        files = [path for path in place.root.rglob("*") if path.is_file()]
        assert files
        assert not [path for path in files if b"hf_very_secret" in path.read_bytes()]

    def test_a_request_is_read_by_its_owner_alone(self, place: LocalPlace) -> None:
        ended(submit(place.service, place.request("pass")))
        assert place.job_folder().stat().st_mode & 0o077 == 0

    def test_a_job_that_is_being_deleted_is_not_listed(self, place: LocalPlace) -> None:
        ended(submit(place.service, place.request("pass")))
        (place.job_folder() / "request.json").unlink()
        assert place.service.jobs() == []


class TestRefusals:
    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"environment": {"TRAINFARE_CORES": "0"}}, "TRAINFARE_CORES is '0'; it must be a whole number from 1 to"),
            ({"environment": {"TRAINFARE_CORES": "99999"}}, "TRAINFARE_CORES is '99999'"),
            ({"environment": {"TRAINFARE_CORES": "two"}}, "TRAINFARE_CORES is 'two'"),
            ({"environment": {"TRAINFARE_MEMORY_GIB": "-1"}}, "TRAINFARE_MEMORY_GIB is '-1'; it must be a number"),
            ({"environment": {"TRAINFARE_STOP_GRACE_SECONDS": "nan"}}, "TRAINFARE_STOP_GRACE_SECONDS is 'nan'"),
            ({"compiler": "trcomp"}, "Compilers 'trcomp' and 'trcomp-off' exist only in SageMaker's images"),
            ({"compiler": "trcomp-off"}, "choose the service 'sagemaker', or the compiler 'none' or 'inductor'"),
            ({"instance_count": 2}, "instance_count is 2; the local service runs on one machine"),
        ],
    )
    def test_nothing_is_created(self, place: LocalPlace, fields: dict, message: str) -> None:
        with pytest.raises(InputError, match=message.replace("(", r"\(")):
            place.service.create(place.request("pass", **fields))
        assert not place.job_folder().parent.exists()

    @pytest.mark.parametrize("name", ["../job", "a b", "", "-a", "a" * 64])
    def test_job_names(self, place: LocalPlace, name: str) -> None:
        with pytest.raises(InputError, match="Job name"):
            place.service.create(place.request("pass") | {"TrainingJobName": name})

    @pytest.mark.parametrize("program", ["", "-c", "../train.py", "/bin/sh", "train py"])
    def test_programs(self, place: LocalPlace, program: str) -> None:
        request = place.request("pass")
        request["HyperParameters"]["sagemaker_program"] = json.dumps(program)
        with pytest.raises(InputError, match="sagemaker_program"):
            place.service.create(request)

    def test_other_launchers(self, place: LocalPlace) -> None:
        request = place.request("pass")
        request["HyperParameters"]["sagemaker_mpi_enabled"] = "true"
        with pytest.raises(InputError, match="sagemaker_mpi_enabled needs a launcher of SageMaker's images"):
            place.service.create(request)

    def test_cursors(self, place: LocalPlace) -> None:
        ended(submit(place.service, place.request("print(1)")))
        with pytest.raises(ServiceError, match="'-5' is not a cursor"):
            place.service.logs("job", "-5")
