"""A job pushes its model to a Hub, and the token appears nowhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.hub.server import Hub, serving
from tests.support.job.job_process import TORCHRUN, Ended, Job

TOKEN = "hf_QwErTz1234567890secret"


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub(token=TOKEN)) as running:
        yield running


@pytest.fixture
def pushing(job: Job, hub: Hub) -> Job:
    """A job with the Hub's address and token."""
    job.environment |= {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1", "MY_TOKEN": TOKEN}
    return job


def push(job: Job, command: tuple[str, ...] = (), **arguments: object) -> Ended:
    options = {"push_to_hub": "someone/a-model", "push_token_variable": "MY_TOKEN", "max_steps": 2, **arguments}
    return job.run(command, **options) if command else job.run(**options)


def assert_token_hidden(ended: Ended) -> None:
    contents = {str(path): path.read_bytes() for path in ended.folder.rglob("*") if path.is_file()}
    contents["output"] = ended.output.encode()
    spellings = [spelling.rpartition(" ")[2].encode() for spelling in Hub(token=TOKEN).credentials]
    assert [name for name, content in contents.items() for spelling in spellings if spelling in content] == []


def test_a_job_pushes_its_model(pushing: Job, hub: Hub) -> None:
    ended = push(pushing, push_message="the first ones")
    result = ended.result
    assert result["hub"] == {"repository": "someone/a-model", "url": f"{hub.url}/someone/a-model", "commit": "c" * 40}
    assert result["metrics"]["time/push_seconds"] > 0
    assert (hub.revision, hub.message, hub.branches) == ("main", "the first ones", [])
    assert {"config.json", "model.safetensors", "README.md", "vocab.txt"} <= set(hub.files)
    for name, content in hub.files.items():
        assert content == (ended.folder / "model" / name).read_bytes()
    assert "training_args.bin" not in hub.files
    # Requests that need no token carry none.
    assert {path for path, header in hub.authorizations.items() if not header} <= {"/api/agent-harnesses"}
    assert set(hub.authorizations.values()) <= {f"Bearer {TOKEN}", ""}
    assert not any(TOKEN.encode() in body for body in hub.bodies)
    assert "Bearer (hidden) wrote this" in ended.output
    assert_token_hidden(ended)


@pytest.mark.slow
def test_the_model_card_lists_scores_and_settings(pushing: Job, hub: Hub) -> None:
    result = push(pushing, learning_rate=1e-3).result
    card = hub.files["README.md"].decode()
    assert "pipeline_tag: text-classification" in card
    assert f"| eval_accuracy | {result['metrics']['eval_accuracy']:.4g} |" in card
    assert "| learning_rate | 0.001 |" in card
    assert "MY_TOKEN" not in card
    assert str(pushing.folder.parent) not in card


@pytest.mark.slow
def test_the_repository_is_private_and_a_branch_is_created(pushing: Job, hub: Hub) -> None:
    ended = push(pushing, push_revision="try-1")
    assert ended.result["hub"]["url"].endswith("/someone/a-model/tree/try-1")
    assert (hub.revision, hub.branches) == ("try-1", ["try-1"])
    assert "true" in str(hub.created[0].get("private")).lower() or hub.created[0].get("visibility") == "private"


def test_a_refused_push_keeps_the_model(pushing: Job, hub: Hub) -> None:
    hub.refuses = "/commit/"
    ended = push(pushing)
    assert ended.code == 0
    assert "403" in ended.result["hub"]["failure"]
    assert "Basic (hidden) also known as Bearer (hidden) may not write" in ended.result["hub"]["failure"]
    assert (ended.folder / "model" / "model.safetensors").exists()
    [note] = [event["message"] for event in ended.events("note") if "push" in event["message"]]
    assert note.startswith("could not push to someone/a-model")
    assert_token_hidden(ended)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "fragments"),
    [
        ({"token": "hf_another"}, ["someone/a-model", "401", "Bearer (hidden)"]),
        ({"refuses": "/api/(repos/create|models)"}, ["someone/a-model", "403"]),
        ({"private": False}, ["someone/a-model", "is public"]),
    ],
)
def test_a_job_that_cannot_push_does_not_train(
    pushing: Job, hub: Hub, settings: dict[str, object], fragments: list[str]
) -> None:
    for name, value in settings.items():
        setattr(hub, name, value)
    ended = push(pushing)
    assert ended.code == 1
    [failure] = ended.events()
    assert failure["event"] == "failure"
    assert [fragment for fragment in fragments if fragment not in failure["message"]] == []
    assert failure["message"] in (ended.folder / "output" / "failure").read_text()
    assert_token_hidden(ended)


@pytest.mark.slow
@pytest.mark.parametrize("repository", ["no/such/name", "a b/c", "-/x"])
def test_an_invalid_repository_name_is_refused(pushing: Job, repository: str) -> None:
    ended = push(pushing, push_to_hub=repository)
    assert ended.code == 1
    assert repository[:50] in ended.events("failure")[0]["message"]
    assert_token_hidden(ended)


@pytest.mark.slow
def test_two_processes_push_once(pushing: Job, hub: Hub) -> None:
    ended = push(pushing, TORCHRUN, batch_size=4)
    assert ended.result["hub"]["commit"]
    assert len(hub.created) == 1
    assert_token_hidden(ended)
