"""`train` pushes to a Hub, and the token appears in no file, database, artifact or output."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.end_to_end.conftest import CommandLine
from tests.support.hub.server import Hub, serving
from tests.support.job.tiny import TINY
from tests.support.services.following import until_unsupervised

TOKEN = "hf_QwErTz1234567890secret"


@dataclasses.dataclass(frozen=True)
class PushingCommandLine(CommandLine):
    """A command line with the variables of a Hub, and optionally a token."""

    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1", **self.variables}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub(token=TOKEN)) as running:
        yield running


@pytest.fixture
def fields(reviews: dict[str, object]) -> dict[str, object]:
    short = {name: value for name, value in reviews.items() if name != "epochs"} | {"max_steps": 2}
    return {**short, **TINY, "save_model": "true", "log_model": "none", "push_to_hub.repository": "someone/a-model"}


def pushing(command_line: CommandLine, hub: Hub, **variables: str) -> PushingCommandLine:
    return PushingCommandLine(command_line.folder, command_line.uri, {"HF_ENDPOINT": hub.url, **variables})


def assert_hidden(command_line: CommandLine, *texts: str) -> None:
    """Check texts, state folder, tracking database and artifacts, which may be in another folder."""
    assert not [text for text in texts if TOKEN in text]
    until_unsupervised(command_line.folder / "home")
    artifacts = [Path(run.info.artifact_uri.removeprefix("file://")) for run in command_line.runs()]
    files = [path for folder in (command_line.folder, *artifacts) for path in folder.rglob("*") if path.is_file()]
    expected = {"mlflow.db", "log.txt", "state.json", "experiment.yaml", "description.json"}
    assert expected <= {path.name for path in files}
    assert not [path for path in files if TOKEN.encode() in path.read_bytes()]


@pytest.mark.slow
def test_a_trained_model_is_pushed(command_line: CommandLine, fields: dict[str, object], hub: Hub) -> None:
    done = pushing(command_line, hub, HF_TOKEN=TOKEN)("train", fields)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"is pushed to {hub.url}/someone/a-model\n" in done.stdout
    [run] = command_line.runs()
    assert run.data.tags["platform.hub_url"] == f"{hub.url}/someone/a-model"
    assert (hub.revision, hub.message) == ("main", "classification trained by trainfare")
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json"} <= set(hub.files)
    assert "training_args.bin" not in hub.files
    card = hub.files["README.md"].decode()
    assert f"| eval_accuracy | {run.data.metrics['eval_accuracy']:.4g} |" in card
    assert "HF_TOKEN" not in card
    assert str(command_line.folder) not in card
    assert_hidden(command_line, done.stdout, done.stderr)


@pytest.mark.slow
def test_the_same_command_pushes_what_is_missing_and_trains_nothing(
    command_line: CommandLine, fields: dict[str, object], hub: Hub
) -> None:
    hub.refuses = "/commit/"
    command = pushing(command_line, hub, HF_TOKEN=TOKEN)
    failed = command("train", {**fields, "log_model": "best"})
    assert failed.returncode == 1
    assert "trained, but its model was not pushed: cannot push to someone/a-model: " in failed.stdout
    [run] = command_line.runs()
    group = run.data.tags["platform.group"]
    assert f"Run the same command, or `trainfare attach --group {group}`, to push it; nothing is trained again." in (
        failed.stdout
    )
    assert (run.info.status, hub.files) == ("FINISHED", {})
    hub.refuses = ""
    again = command("train", {**fields, "log_model": "best"})
    assert again.returncode == 0, again.stdout + again.stderr
    [same] = command_line.runs()
    assert same.data.tags["platform.hub_url"] == f"{hub.url}/someone/a-model"
    assert same.info.end_time == run.info.end_time
    assert "model.safetensors" in hub.files
    assert_hidden(command_line, failed.stdout, failed.stderr, again.stdout, again.stderr)
