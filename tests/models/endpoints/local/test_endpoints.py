"""Endpoints on this machine: each outlives its command, has a unique name and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from models.endpoints.local.endpoint_folder import EndpointFolder
from models.endpoints.local.endpoints import LocalEndpoints
from models.endpoints.protocol import EndpointSpec, EndpointState
from tests.conftest import ROOT
from tests.support.endpoints.small_models import made
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


def pid(endpoints: LocalEndpoints, name: str) -> int:
    address_file = Path(str(endpoints.describe(name).log)).with_name("address.json")
    return int(json.loads(address_file.read_text())["pid"])


def score(endpoints: LocalEndpoints, name: str) -> float:
    return float(json.loads(endpoints.predict(name, QUESTION))[0]["score"])


@pytest.mark.slow
def test_an_endpoint_is_deployed_replaced_and_deleted(
    endpoints: LocalEndpoints, tiny_model: Path, other_model: Path, tmp_path: Path
) -> None:
    messages: list[str] = []
    spec = EndpointSpec(name="winter", model=tiny_model)
    state = endpoints.deploy(spec, messages.append)
    assert (state.status, state.service, state.machine, state.price) == ("InService", "local", "local", None)
    assert state.address.startswith("http://127.0.0.1:")
    assert messages[0] == f"Starting endpoint winter with model {tiny_model}"
    first = score(endpoints, "winter")

    # The same again is the same.
    assert endpoints.deploy(spec, messages.append) == state
    assert messages[-1] == f"Endpoint winter already serves {tiny_model}"

    # Another model is refused, or takes its place.
    other = EndpointSpec(name="winter", model=other_model)
    with pytest.raises(EndpointTaken, match=f"serves {tiny_model}, not {other_model}: use --replace true"):
        endpoints.deploy(other, messages.append)
    replaced = endpoints.deploy(EndpointSpec(name="winter", model=other_model, replace=True), messages.append)
    assert replaced.address != state.address
    assert score(endpoints, "winter") != first
    assert len(servers(tmp_path)) == 1

    with pytest.raises(InputError, match=r"endpoint winter rejected the request with status 400: the body is not JSON"):
        endpoints.predict("winter", b"{")

    endpoints.undeploy("winter", messages.append)
    assert endpoints.endpoints() == []
    assert list((tmp_path / "endpoints").iterdir()) == []
    assert servers(tmp_path) == []
    for call in (lambda: endpoints.describe("winter"), lambda: endpoints.undeploy("winter", print)):
        with pytest.raises(EndpointNotFound, match="local endpoint 'winter' does not exist"):
            call()


@pytest.mark.slow
def test_new_weights_in_the_folder_are_a_different_model(endpoints: LocalEndpoints, tmp_path: Path) -> None:
    folder = made(tmp_path / "model", seed=0)
    spec = EndpointSpec(name="winter", model=folder, lifetime_seconds=3600)
    state = endpoints.deploy(spec, print)
    first = score(endpoints, "winter")
    renewed = endpoints.deploy(spec, print)
    assert replace(renewed, expires=state.expires) == state
    with pytest.raises(
        EndpointTaken, match=f"winter serves {folder} with precision auto, not fp32: use --replace true"
    ):
        endpoints.deploy(replace(spec, precision="fp32"), print)

    made(folder, seed=1)
    with pytest.raises(
        EndpointTaken, match=rf"winter serves an earlier state of {folder}: .* changed since: use --replace true"
    ):
        endpoints.deploy(spec, print)
    assert endpoints.describe("winter") == renewed
    replaced = endpoints.deploy(replace(spec, replace=True), print)
    assert replaced.address != state.address
    assert score(endpoints, "winter") != first
    # Once it serves them it is the same again, also where it may be replaced.
    again = endpoints.deploy(replace(spec, replace=True, lifetime_seconds=None), print)
    assert again == replaced
    assert len(servers(tmp_path / "endpoints")) == 1


@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_leaves_nothing(
    endpoints: LocalEndpoints, tiny_model: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in tiny_model.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    weights = (broken / "model.safetensors").read_bytes()
    (broken / "model.safetensors").write_bytes(weights[:1000])
    with pytest.raises(
        EndpointFailed, match="endpoint broken did not start: the last lines of its log are: error: the model in"
    ):
        endpoints.deploy(EndpointSpec(name="broken", model=broken), print)
    assert endpoints.endpoints() == []
    assert list((tmp_path / "endpoints").iterdir()) == []


@pytest.mark.slow
def test_a_failed_replacement_leaves_the_endpoint_unchanged(
    endpoints: LocalEndpoints, tiny_model: Path, tmp_path: Path
) -> None:
    state = endpoints.deploy(EndpointSpec(name="a", model=tiny_model), print)
    (tmp_path / "empty").mkdir()
    with pytest.raises(EndpointFailed):
        endpoints.deploy(EndpointSpec(name="a", model=tmp_path / "empty", replace=True), print)
    assert endpoints.describe("a") == state
    assert score(endpoints, "a") > 0
    assert len(servers(tmp_path)) == 1


@pytest.mark.slow
def test_a_killed_server_is_failed_and_can_be_deployed_again(
    endpoints: LocalEndpoints, tiny_model: Path, tmp_path: Path
) -> None:
    spec = EndpointSpec(name="a", model=tiny_model)
    endpoints.deploy(spec, print)
    os.kill(pid(endpoints, "a"), signal.SIGKILL)
    state = until_status(endpoints, "a", "Failed")
    address = state.address.removesuffix("/invocations")
    assert state.reason == f"the last lines of its log are: Serving {tiny_model} in fp32 at {address}"
    with pytest.raises(EndpointFailed, match="endpoint a is Failed: the last lines of its log are"):
        endpoints.predict("a", QUESTION)
    assert endpoints.deploy(spec, print).status == "InService"
    assert len(servers(tmp_path)) == 1


@pytest.mark.slow
def test_a_process_that_reuses_the_id_is_never_killed(
    endpoints: LocalEndpoints, tiny_model: Path, tmp_path: Path
) -> None:
    endpoints.deploy(EndpointSpec(name="a", model=tiny_model), print)
    os.kill(pid(endpoints, "a"), signal.SIGKILL)
    state = until_status(endpoints, "a", "Failed")
    address_file = Path(str(state.log)).with_name("address.json")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as innocent:
        address_file.write_text(json.dumps({"pid": innocent.pid, "address": "http://127.0.0.1:1"}))
        assert endpoints.describe("a").status == "Failed"
        endpoints.undeploy("a", print)
        assert innocent.poll() is None
        innocent.kill()


@pytest.mark.slow
def test_concurrent_deploys_make_one_endpoint(endpoints: LocalEndpoints, tiny_model: Path, tmp_path: Path) -> None:
    results: list[EndpointState] = []
    messages: list[str] = []
    spec = EndpointSpec(name="a", model=tiny_model)
    both = [threading.Thread(target=lambda: results.append(endpoints.deploy(spec, messages.append))) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert len(results) == 2
    assert results[0] == results[1]
    assert "Waiting for a different command that is changing endpoint a." in messages
    assert len(servers(tmp_path)) == 1


DEPLOY = """
import sys
from pathlib import Path
from models.endpoints.local.endpoints import LocalEndpoints
from models.endpoints.protocol import EndpointSpec
LocalEndpoints(Path(sys.argv[1])).deploy(EndpointSpec(name="a", model=Path(sys.argv[2]), replace=True), print)
"""


def deploying(root: Path, model: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", DEPLOY, str(root), str(model)], cwd=ROOT, start_new_session=True)


@pytest.mark.slow
def test_the_next_deploy_takes_over_from_a_killed_one(
    endpoints: LocalEndpoints, tiny_model: Path, tmp_path: Path
) -> None:
    with deploying(tmp_path, tiny_model) as process:
        while not servers(tmp_path):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    assert endpoints.describe("a").status in ("Creating", "InService")  # on a busy machine
    state = endpoints.deploy(EndpointSpec(name="a", model=tiny_model), print)
    assert state.status == "InService"
    assert len(servers(tmp_path)) == 1


@pytest.mark.slow
def test_a_killed_replacement_leaves_the_old_endpoint(
    endpoints: LocalEndpoints, tiny_model: Path, other_model: Path, tmp_path: Path
) -> None:
    state = endpoints.deploy(EndpointSpec(name="a", model=tiny_model), print)
    with deploying(tmp_path, other_model) as process:
        while len(servers(tmp_path)) < 2:
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    assert endpoints.describe("a") == state
    assert endpoints.deploy(EndpointSpec(name="a", model=tiny_model), print) == state
    assert len(servers(tmp_path)) == 1
    assert len(EndpointFolder(tmp_path / "endpoints" / "a").servers()) == 1


def test_ctrl_c_during_a_deploy_leaves_nothing(endpoints: LocalEndpoints, tiny_model: Path, tmp_path: Path) -> None:
    with deploying(tmp_path, tiny_model) as process:
        while not servers(tmp_path):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.wait(300)
    assert servers(tmp_path) == []
    assert endpoints.endpoints() == []


@pytest.mark.slow
def test_a_repeated_deploy_sets_the_lifetime(endpoints: LocalEndpoints, tiny_model: Path) -> None:
    spec = EndpointSpec(name="a", model=tiny_model, lifetime_seconds=3600, when_over="delete")
    state = endpoints.deploy(spec, print)
    assert state.expires is not None
    assert (state.expires - state.created).total_seconds() == pytest.approx(3600, abs=1)
    assert endpoints.deploy(replace(spec, lifetime_seconds=None), print) == state
    warned = endpoints.deploy(replace(spec, lifetime_seconds=60, when_over="warn"), print)
    assert warned.when_over == "warn"
    assert warned.expires is not None
    assert warned.expires < state.expires


def until_status(endpoints: LocalEndpoints, name: str, status: str) -> EndpointState:
    deadline = time.monotonic() + 240
    while (state := endpoints.describe(name)).status != status:
        assert time.monotonic() < deadline, state
        time.sleep(0.05)
    return state


@pytest.mark.slow
def test_an_endpoint_with_a_token_answers_only_with_it(
    endpoints: LocalEndpoints, tiny_model: Path, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("0123456789abcdef")
    spec = EndpointSpec(name="winter", model=tiny_model, host="0.0.0.0", token_file=token)
    state = endpoints.deploy(spec, print)
    assert state.address.startswith("http://0.0.0.0:")
    assert score(endpoints, "winter") > 0
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(urllib.request.Request(state.address, QUESTION), timeout=30)
    token.write_text("another-token-of-16")
    with pytest.raises(InputError, match="rejected the request with status 401: the token is missing or wrong"):
        endpoints.predict("winter", QUESTION)
    with pytest.raises(EndpointTaken, match="with an earlier token"):
        endpoints.deploy(spec, print)
    token.chmod(0o644)
    with pytest.raises(InputError, match="is not safe"):
        endpoints.predict("winter", QUESTION)
