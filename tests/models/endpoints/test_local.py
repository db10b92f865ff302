"""Endpoints on this machine: each outlives its command, has a unique name and leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from models.endpoints.local import LocalEndpoints, difference, record_of
from models.endpoints.protocol import EndpointSpec
from state.locks import lock_for_deletion
from tests.conftest import ROOT
from training.contract.errors import EndpointFailed, EndpointNotFound, EndpointTaken, InputError

QUESTION = json.dumps({"inputs": "Winter is coming and it will be dark soon."}).encode()


@pytest.fixture
def endpoints(tmp_path: Path) -> Iterator[LocalEndpoints]:
    """Endpoints in an empty folder. All of them are ended after the test."""
    results = LocalEndpoints(tmp_path)
    yield results
    for state in results.endpoints():
        results.undeploy(state.name, print)
    assert servers(tmp_path) == []


def servers(root: Path) -> list[int]:
    """Return the process ids of servers whose files are below a folder."""
    processes = ((process.pid, process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))
    return [pid for pid, words in processes if "models.server" in words and any(str(root) in word for word in words)]


def score(endpoints: LocalEndpoints, name: str) -> float:
    return float(json.loads(endpoints.predict(name, QUESTION))[0]["score"])


@pytest.mark.slow
def test_an_endpoint_is_deployed_and_deleted(
    endpoints: LocalEndpoints, tiny_model: Path, other_model: Path, tmp_path: Path
) -> None:
    messages: list[str] = []
    kept = tmp_path / "models" / "kept"  # in a shared folder of the state, from which `jobs prune` deletes
    shutil.copytree(tiny_model, kept)
    spec = EndpointSpec(name="winter", model=kept)
    state = endpoints.deploy(spec, messages.append)
    assert (state.status, state.service, endpoints.price("local")) == ("InService", "local", None)
    assert state.address.startswith("http://127.0.0.1:")
    assert messages[0] == f"Starting endpoint winter with model {kept}"
    first = score(endpoints, "winter")
    with lock_for_deletion(kept) as is_free:
        assert not is_free

    # The same again is the same.
    assert endpoints.deploy(spec, messages.append) == state
    assert messages[-1] == f"Endpoint winter already serves {kept}"
    assert endpoints.plan(spec).action == "keep"

    # Another model is refused.
    other = EndpointSpec(name="winter", model=other_model)
    with pytest.raises(
        EndpointTaken, match=f"serves {kept}, not {other_model}: choose a different --endpoint, or undeploy"
    ):
        endpoints.deploy(other, messages.append)
    assert score(endpoints, "winter") == first
    assert len(servers(tmp_path)) == 1
    with pytest.raises(InputError, match=r"Endpoint winter rejected the request with status 400: "):
        endpoints.predict("winter", b"{")

    endpoints.undeploy("winter", messages.append)
    (tmp_path / "empty").mkdir()
    with pytest.raises(EndpointFailed, match="endpoint winter did not start: the last lines of its log are: error: "):
        endpoints.deploy(replace(other, model=tmp_path / "empty"), print)
    assert (endpoints.endpoints(), list((tmp_path / "endpoints").iterdir()), servers(tmp_path)) == ([], [], [])
    with pytest.raises(EndpointNotFound, match="local endpoint 'winter' does not exist"):
        endpoints.undeploy("winter", print)


@pytest.mark.slow
def test_a_killed_server_is_failed_and_can_be_deployed_again(
    endpoints: LocalEndpoints, tiny_model: Path, tmp_path: Path
) -> None:
    spec = EndpointSpec(name="a", model=tiny_model)
    address = endpoints.deploy(spec, print).address.removesuffix("/invocations")
    [pid] = servers(tmp_path)
    os.kill(pid, signal.SIGKILL)
    psutil.Process(pid).wait(60)
    [state] = endpoints.endpoints()
    assert (state.status, state.reason) == (
        "Failed",
        f"the last lines of its log are: Serving {tiny_model} in fp32 at {address}",
    )
    with pytest.raises(EndpointFailed, match="endpoint a is Failed: the last lines of its log are"):
        endpoints.predict("a", QUESTION)
    # A process that has its id now is never killed.
    [address_file] = (tmp_path / "endpoints").rglob("address.json")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as innocent:
        address_file.write_text(json.dumps({"pid": innocent.pid, "address": "http://127.0.0.1:1"}))
        assert endpoints.deploy(spec, print).status == "InService"
        assert innocent.poll() is None
        innocent.kill()
    assert len(servers(tmp_path)) == 1


@pytest.mark.slow
def test_concurrent_deploys_make_one_endpoint(endpoints: LocalEndpoints, tiny_model: Path, tmp_path: Path) -> None:
    spec = EndpointSpec(name="a", model=tiny_model)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: endpoints.deploy(spec, print), range(2))
    assert first == second
    assert len(servers(tmp_path)) == 1


DEPLOY = """
import sys
from pathlib import Path
from models.endpoints.local import LocalEndpoints
from models.endpoints.protocol import EndpointSpec
LocalEndpoints(Path(sys.argv[1])).deploy(EndpointSpec(name="a", model=Path(sys.argv[2])), print)
"""


def deploying(root: Path, model: Path) -> subprocess.Popen[bytes]:
    """Start a deployment, and wait until it has started the server."""
    process = subprocess.Popen([sys.executable, "-c", DEPLOY, str(root), str(model)], cwd=ROOT, start_new_session=True)
    while not servers(root):
        assert process.poll() is None
        time.sleep(0.01)
    return process


@pytest.mark.slow
def test_the_next_deploy_takes_over_from_a_killed_one(
    endpoints: LocalEndpoints, tiny_model: Path, tmp_path: Path
) -> None:
    with deploying(tmp_path, tiny_model) as process:
        process.kill()
    assert endpoints.endpoints()[0].status in ("Creating", "InService")  # on a busy machine
    spec = EndpointSpec(name="a", model=tiny_model)
    state = endpoints.deploy(spec, print)
    assert (state.status, len(servers(tmp_path))) == ("InService", 1)


def test_ctrl_c_during_a_deploy_leaves_nothing(endpoints: LocalEndpoints, tiny_model: Path, tmp_path: Path) -> None:
    with deploying(tmp_path, tiny_model) as process:
        process.send_signal(signal.SIGINT)
        process.wait(300)
    assert (servers(tmp_path), list((tmp_path / "endpoints").iterdir())) == ([], [])


@pytest.mark.slow
def test_an_endpoint_with_a_token_answers_only_with_it(
    endpoints: LocalEndpoints, tiny_model: Path, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("0123456789abcdef")
    spec = EndpointSpec(name="winter", model=tiny_model, host="0.0.0.0", token_file=token)
    state = endpoints.deploy(spec, print)
    assert score(endpoints, "winter") > 0
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(urllib.request.Request(state.address, QUESTION), timeout=30)
    token.write_text("another-token-of-16")
    with pytest.raises(InputError, match="rejected the request with status 401: the token is missing or wrong"):
        endpoints.predict("winter", QUESTION)
    with pytest.raises(EndpointTaken, match="differs in token_changed: choose"):
        endpoints.deploy(spec, print)
    token.chmod(0o644)
    with pytest.raises(InputError, match="is not safe"):
        endpoints.predict("winter", QUESTION)


def test_a_different_model_or_option_is_noticed(tmp_path: Path) -> None:
    model, token = tmp_path / "model", tmp_path / "token"
    (model / "checkpoint-1").mkdir(parents=True)
    (model / "config.json").write_text("old")
    token.write_text("0123456789abcdef")
    spec = EndpointSpec(name="a", model=model)
    kept = json.loads(json.dumps(record_of(spec)))
    (model / "checkpoint-1" / "model.safetensors").write_text("of a training")
    assert difference(kept, replace(spec, precision="auto")) is None
    assert difference(kept, replace(spec, run_id="0123")) == f"serves {model}, not 0123"
    different = replace(spec, precision="bf16", host="0.0.0.0", token_file=token)
    assert difference(kept, different) == (f"serves {model}, but differs in precision, host, token_file, token_changed")
    (model / "config.json").write_text("newer")
    assert difference(kept, spec) == f"serves {model}, but differs in files"
    # The model of a run never changes, even if it is fetched again.
    of_run = replace(spec, run_id="0123")
    kept = json.loads(json.dumps(record_of(of_run)))
    (model / "config.json").write_text("fetched again")
    assert difference(kept, of_run) is None
