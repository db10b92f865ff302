"""Arguments, channels and variables of a job, on both services."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.support.services.following import ended
from tests.support.services.harness import SERVICES, Harness, harness_of
from training.contract.errors import ArtifactError
from training.services.launcher import submit


@pytest.fixture(params=SERVICES)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    return harness_of(request, tmp_path)


class TestInputs:
    def test_awkward_hyperparameters_arrive_unchanged(self, harness: Harness) -> None:
        values = {"----looks_like": "no", "flag": True, "rate": 3e-05, "n": -1, "option": "--help"}
        values = {name.removeprefix("--"): value for name, value in values.items()}
        # The toolkit's shell on SageMaker changes these. Our entry point carries them there.
        shell = {"empty": "", "name": 'it\'s "quoted" é $HOME `x`'} if harness.service.name == "local" else {}
        script = "import json, sys; print(json.dumps(sys.argv))"
        _, lines = ended(submit(harness.service, harness.request(script, hyperparameters={**values, **shell})))
        words = [word for name in ("empty", "name") if name in shell for word in (f"--{name}", shell[name])]
        assert json.loads(lines[0]) == [
            "train.py",
            *("----looks_like", "no", *words[:2], "--flag", "True", "-n", "-1"),
            *(*words[2:], "--option", "--help", "--rate", "3e-05"),
        ]

    def test_channels_and_variables_arrive_unchanged(self, harness: Harness) -> None:
        script = """
            import json, os, pathlib
            texts = {c: pathlib.Path(os.environ["SM_CHANNEL_" + c.upper()], "däta 1.txt").read_text("utf-8")
                     for c in json.loads(os.environ["SM_CHANNELS"])}
            print(json.dumps([texts, os.environ["GREETING"]]))
        """
        channels = {name: harness.folder("data", {"däta 1.txt": f"{name} ü"}) for name in ("train", "test")}
        request = harness.request(script, channels=channels, environment={"GREETING": "it's “me” \n=1"})
        _, lines = ended(submit(harness.service, request))
        assert json.loads(lines[0]) == [{"train": "train ü", "test": "test ü"}, "it's “me” \n=1"]

    def test_output_files_can_be_fetched(self, harness: Harness) -> None:
        script = """
            import os, pathlib
            pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"], "events.jsonl").write_bytes(b"\\x00{}")
        """
        job = submit(harness.service, harness.request(script))
        ended(job)
        assert harness.service.fetch_output(job.name, "events.jsonl") == b"\x00{}"
        assert harness.service.fetch_output(job.name, "nothing") is None
        assert harness.service.fetch_output(job.name, "../../../request.json") is None

    def test_the_model_can_be_read_as_a_stream(self, harness: Harness) -> None:
        script = """
            import os, pathlib
            pathlib.Path(os.environ["SM_MODEL_DIR"], "weights").write_bytes(bytes(range(256)) * 1000)
        """
        description, _ = ended(submit(harness.service, harness.request(script)))
        uri = description["ModelArtifacts"]["S3ModelArtifacts"]
        with harness.again().open_model(uri) as stream, tarfile.open(fileobj=stream, mode="r|*") as tar:
            [(name, size)] = [(member.name, member.size) for member in tar if member.isfile()]
        assert (Path(name).name, size) == ("weights", 256_000)
        with pytest.raises(ArtifactError), harness.service.open_model(f"{uri}.gone"):
            pass
