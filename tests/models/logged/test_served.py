"""`mlflow models serve` in a real process, with requests over HTTP for every kind of model."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.fork_server.interpreter import INTERPRETER
from tests.support.models.made_models import LABELS
from tests.support.models.place import Place

pytestmark = pytest.mark.slow
SENTENCE = "Winter is coming and it will be dark soon."


class Served:
    """A running server."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def is_up(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/ping", timeout=2):
                return True
        except OSError:
            return False

    def __call__(self, body: object) -> tuple[int, Any]:
        """Return status and answer."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}/invocations", content, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)["predictions"]
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()


@contextmanager
def served(place: Place, uri: str) -> Iterator[Served]:
    """Serve a model with MLflow's own command, from another folder and without our packages on the path."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["models", "serve", "-m", uri, "--env-manager", "local", "--port", str(port), "--workers", "1"]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables |= {"MLFLOW_TRACKING_URI": str(place.client.tracking_uri), "MLFLOW_DISABLE_TELEMETRY": "true"}
    variables |= {"PATH": f"{Path(INTERPRETER).parent}{os.pathsep}{os.environ['PATH']}"}
    elsewhere = place.folder / "elsewhere"
    elsewhere.mkdir()
    with (place.folder / "served.log").open("wb") as log:
        process = subprocess.Popen(
            ["mlflow", *words], cwd=elsewhere, env=variables, stdout=log, stderr=log, start_new_session=True
        )
    try:
        answers, deadline = Served(port), time.monotonic() + 240
        while not answers.is_up():
            assert process.poll() is None, (place.folder / "served.log").read_text()
            assert time.monotonic() < deadline, (place.folder / "served.log").read_text()
            time.sleep(0.2)
        yield answers
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def logged(place: Place, archive_of: Callable[[str], Path], kind: str) -> tuple[str, str]:
    """Log a model of a kind, and return its address by run and by model id."""
    run = place.run(archive_of(kind))
    place.log(run, kind=kind)
    model_id = place.again(run).data.tags["platform.model_id"]
    return f"runs:/{run.info.run_id}/model", f"models:/{model_id}"


def test_a_text_is_classified(place: Place, archive_of: Callable[[str], Path]) -> None:
    by_run, _ = logged(place, archive_of, "classification")
    with served(place, by_run) as ask:
        status, [single] = ask({"inputs": SENTENCE})
        assert status == 200
        assert single["label"] in LABELS
        assert 0.5 <= single["score"] <= 1
        _, several = ask({"inputs": [SENTENCE, "[1]", "word " * 1000, SENTENCE]})
        assert several[0] == several[3] == pytest.approx(single, abs=1e-5)
        assert len(several) == 4
        for body in (
            {"dataframe_split": {"columns": ["text"], "data": [[SENTENCE], ["b"]]}},
            {"dataframe_records": [{"text": SENTENCE}, {"text": "b"}]},
        ):
            _, answers = ask(body)
            assert (len(answers), answers[0]) == (2, pytest.approx(single, abs=1e-5))
        for wrong in (b"", b"\xff\xfe", b"{", {"inputs": []}, {"inputs": None}, {"inputs": {"text": ["a"]}}, {}):
            assert ask(wrong)[0] == 400, wrong
        assert ask({"inputs": SENTENCE}) == (200, [single])


def test_a_pair_of_texts_is_classified(place: Place, archive_of: Callable[[str], Path]) -> None:
    _, by_model = logged(place, archive_of, "pairs")
    pair = {"text": SENTENCE, "text_pair": "The days are getting shorter."}
    with served(place, by_model) as ask:
        status, [single] = ask({"inputs": pair})
        assert status == 200
        assert single["label"] in LABELS
        assert ask({"inputs": [pair, pair]})[1] == [pytest.approx(single, abs=1e-5)] * 2
        split = {"columns": list(pair), "data": [list(pair.values())]}
        assert ask({"dataframe_split": split}) == (200, [single])
        assert ask({"inputs": {"text": "without its pair"}})[0] == 400


def test_a_question_is_answered(place: Place, archive_of: Callable[[str], Path]) -> None:
    by_run, _ = logged(place, archive_of, "question-answering")
    question = {"question": "What is coming?", "context": SENTENCE * 10}
    with served(place, by_run) as ask:
        status, [single] = ask({"inputs": question})
        assert status == 200
        assert question["context"][single["start"] : single["end"]].strip() == single["answer"] != ""
        assert ask({"inputs": [question, question]})[1] == [pytest.approx(single)] * 2
        split = {"columns": ["context", "question"], "data": [[question["context"], question["question"]]]}
        assert ask({"dataframe_split": split}) == (200, [single])
        assert ask({"inputs": {"question": "Where?"}})[0] == 400


def test_a_text_is_continued(place: Place, archive_of: Callable[[str], Path]) -> None:
    _, by_model = logged(place, archive_of, "causal-lm")
    with served(place, by_model) as ask:
        status, [single] = ask({"inputs": SENTENCE})
        assert status == 200
        assert single["generated_text"].startswith(SENTENCE)
        _, [shorter] = ask({"inputs": SENTENCE, "params": {"max_new_tokens": 2}})
        assert len(shorter["generated_text"]) < len(single["generated_text"])
        assert ask({"inputs": [SENTENCE, "b"]})[1][0] == single
        split = {"columns": ["text"], "data": [[SENTENCE]]}
        assert ask({"dataframe_split": split}) == (200, [single])
