"""`predict` with a file: formats, columns, and errors before any prediction."""

from __future__ import annotations

import bz2
import csv
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.deployments.predict import predict_file
from models.batch import WINDOW_ROWS, new_file
from models.inference.predictor import Predictor, load_predictor
from tests.support.models.made_models import modelled
from tests.support.models.task_models import TEXTS
from tests.support.staging.fast_tokenizers import CORPUS
from tests.support.tracking.tracked import Tracked
from training.contract.errors import InputError


def answers(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def predicted(tmp_path: Path, model: Path, file: Path, **more: str) -> list[dict[str, Any]]:
    """Run the verb and return the lines of its output. Check that it leaves no other file."""
    output = tmp_path / "answers.jsonl"
    fields = {"model": str(model), "file": str(file), "output": str(output), "precision": "fp32"}
    assert predict_file({**fields, **more}) == 0
    assert not list(tmp_path.glob(".*.unfinished"))
    predictions = answers(output)
    output.unlink()
    return predictions


def assert_answers(predictions: list[dict[str, Any]], expected: list[dict[str, Any]], rows: list[int]) -> None:
    assert [each["row"] for each in predictions] == rows
    for one, other in zip(predictions, expected, strict=True):
        assert one["label"] == other["label"]
        assert one["score"] == pytest.approx(other["score"], abs=1e-5)


def test_rows_of_a_file_or_of_several_are_predicted_in_order(
    tmp_path: Path, classifier_folder: Path, classifier: Predictor
) -> None:
    texts = [text.replace("\t", " ") for text in TEXTS * 9]
    expected = classifier.answer(texts)
    one_up = list(range(1, len(texts) + 1))
    lines = "".join(json.dumps({"text": text, "other": 1}) + "\n" for text in texts)
    (tmp_path / "a.jsonl").write_text(lines, "utf-8")
    with (tmp_path / "a.csv").open("w", encoding="utf-8", newline="") as table:
        csv.writer(table).writerows([["n", "said"], *[[str(at), text] for at, text in enumerate(texts)]])
    (tmp_path / "shards").mkdir()
    for shard in range(3):
        part = lines.splitlines(keepends=True)[len(texts) // 3 * shard : len(texts) // 3 * (shard + 1)]
        (tmp_path / "shards" / f"{shard}.jsonl.bz2").write_bytes(bz2.compress("".join(part).encode()))
    for name in ("a.jsonl", "shards", "shards/*.bz2"):
        assert_answers(predicted(tmp_path, classifier_folder, tmp_path / name), expected, one_up)
    columns = {"data.columns.text": "said", "data.columns.id": "n"}
    predictions = predicted(tmp_path, classifier_folder, tmp_path / "a.csv", **columns)
    assert_answers(predictions, expected, [number + 1 for number in one_up])
    assert [each["id"] for each in predictions] == [str(at) for at in range(len(texts))]


def test_pairs_are_predicted_with_parameters(tmp_path: Path, classifier_folder: Path, classifier: Predictor) -> None:
    (tmp_path / "a.tsv").write_text("p\th\nSuper\tthird title\n", "utf-8")
    columns = {"data.columns.text": "p", "data.columns.text_pair": "h", "parameters": '{"top_k": 2}'}
    (predictions,) = predicted(tmp_path, classifier_folder, tmp_path / "a.tsv", **columns)
    (expected,) = classifier.answer({"text": "Super", "text_pair": "third title"}, {"top_k": 2})
    assert predictions["row"] == 2
    assert [each["label"] for each in predictions["answers"]] == [each["label"] for each in expected]
    assert [each["score"] for each in predictions["answers"]] == pytest.approx(
        [each["score"] for each in expected], abs=1e-5
    )


def test_questions_are_read_from_rows_and_from_squad_json(
    tmp_path: Path, reader_folder: Path, reader: Predictor
) -> None:
    questions = [{"question": "Who won?", "context": TEXTS[0]}, {"question": "What name?", "context": TEXTS[2] * 5}]
    too_long = {"question": "won " * 80, "context": TEXTS[2] * 9}
    expected = [(each["answer"], each["start"], each["end"]) for each in reader.answer(questions)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(each) + "\n" for each in questions))
    qas = [{"id": f"q{at}", "question": each["question"], "answers": []} for at, each in enumerate(questions)]
    paragraphs = [{"context": each["context"], "qas": [qa]} for each, qa in zip(questions, qas, strict=True)]
    (tmp_path / "squad.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    rows = predicted(tmp_path, reader_folder, tmp_path / "a.jsonl")
    squad = predicted(tmp_path, reader_folder, tmp_path / "squad.json")
    for predictions in (rows, squad):
        assert [(each["answer"], each["start"], each["end"]) for each in predictions] == expected
    assert [each["id"] for each in squad] == ["q0", "q1"]
    # A later question that leaves no room for its context is refused before the first is answered.
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(each) + "\n" for each in (questions[0], too_long)))
    with pytest.raises(InputError, match=r"b.jsonl line 2: inputs: the question takes"):
        predict_file({"model": str(reader_folder), "file": str(tmp_path / "b.jsonl")})
    assert not (tmp_path / "b.answers.jsonl").exists()


def test_texts_are_continued(tmp_path: Path, writer_folder: Path, writer: Predictor) -> None:
    (tmp_path / "a.txt").write_text("The Denver\nWho won?\n")
    predictions = predicted(tmp_path, writer_folder, tmp_path / "a.txt", parameters='{"max_new_tokens": 5}')
    expected = writer.answer(["The Denver", "Who won?"], {"max_new_tokens": 5})
    assert predictions == [{"row": at, **each} for at, each in enumerate(expected, start=1)]


def test_what_the_file_does_not_show_is_refused_with_the_option(tmp_path: Path, classifier_folder: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("text\nGröße\n".encode("latin-1"))
    fields = {"model": str(classifier_folder), "file": str(path)}
    with pytest.raises(InputError, match=r"a.csv line 2 is not UTF-8: .*; set --data.encoding to the file's encoding"):
        predict_file(fields)
    with pytest.raises(InputError, match=r"predict --file: 'latin-11' is not an encoding of text.*mean 'latin-1'"):
        predict_file({**fields, "data.encoding": "latin-11"})
    with pytest.raises(InputError, match=r"--file .*\*.csv is a pattern: name the answers with --output"):
        predict_file({**fields, "file": str(tmp_path / "*.csv")})
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]


ID = {"data.columns.id": "n"}

REFUSED = {
    "no text": ('{"text": "a"}\n\n{"text": 5.5}\n', {}, r"a.jsonl line 3: column 'text' must be text, not 5.5"),
    "id": ('{"text": "a", "n": 1.5}\n{"text": "b", "n": NaN}\n', ID, r"a.jsonl line 2: column 'n' is nan: an id must"),
    "no rows": ("\n\n", {}, r"a.jsonl has no rows"),
    "parameters": ('{"text": "a"}\n', {"parameters": "[1]"}, r"parameters must be a JSON object"),
    "endpoint": ('{"text": "a"}\n', {"endpoint": "e"}, r"--file needs --run or --model instead of --endpoint"),
    "output": ('{"text": "a"}\n', {"output": __file__}, r"test_batch.py exists already"),
    "field": ('{"text": "a"}\n', {"precison": "fp32"}, r"unknown field 'precison'.* Did you mean 'precision'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_invalid_file_or_field_is_refused_before_prediction(
    tmp_path: Path, classifier_folder: Path, case: str
) -> None:
    content, more, message = REFUSED[case]
    (tmp_path / "a.jsonl").write_text(content)
    fields = {"model": str(classifier_folder), "file": str(tmp_path / "a.jsonl"), **more}
    with pytest.raises(InputError, match=message):
        predict_file(fields)
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_ids_of_any_json_type_are_copied(tmp_path: Path, classifier_folder: Path) -> None:
    ids = ["ü\0", 7, 0.5, True, ["a", 1], {"b": 2}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": "a", "n": each}) + "\n" for each in ids))
    assert [each["id"] for each in predicted(tmp_path, classifier_folder, tmp_path / "a.jsonl", **ID)] == ids


@pytest.mark.parametrize("task", ["classification", "question-answering"])
def test_an_answer_that_is_not_a_number_names_its_row(
    tmp_path: Path, classifier_folder: Path, reader_folder: Path, task: str
) -> None:
    folder = classifier_folder if task == "classification" else reader_folder
    broken = without_a_number(folder, tmp_path / "broken", "日")
    texts = [CORPUS[1], "日", CORPUS[1] * 2]
    row = {"question": "Who?", "context": ""} if task == "question-answering" else {"text": ""}
    lines = [json.dumps({**row, list(row)[-1]: text}) for text in texts]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    message = (
        r"a.jsonl line 2: the model's answer is not a finite number: check the model's weights, or use precision fp32$"
    )
    with pytest.raises(InputError, match=message):
        predict_file({"model": str(broken), "file": str(tmp_path / "a.jsonl"), "precision": "fp32"})
    assert not (tmp_path / "a.answers.jsonl").exists()


def without_a_number(source: Path, folder: Path, word: str) -> Path:
    """Save a model that answers one word with scores that are not numbers."""
    predictor = load_predictor(source, precision="fp32")
    tokenizer, model = predictor.loaded.tokenizer, predictor.loaded.model
    (token,) = tokenizer(word, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        model.get_input_embeddings().weight[token] = float("nan")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_runs_model_predicts_with_its_evaluation_settings(
    tmp_path: Path, tracked: Tracked, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tracked.client.tracking_uri))
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    params = {"hp.task": "classification", "hp.precision": "fp32", "hp.max_length": 8}
    modelled(tracked, tmp_path, "weather-1", params=params)
    (tmp_path / "a.jsonl").write_text('{"text": "winter is coming"}\n{"text": "it will be dark"}\n')
    assert predict_file({"run": "weather-1", "file": str(tmp_path / "a.jsonl")}) == 0
    lines = (tmp_path / "a.answers.jsonl").read_text().splitlines()
    assert [json.loads(line)["row"] for line in lines] == [1, 2]
    assert "Precision: fp32, as in the evaluation." in capsys.readouterr().err


ROOT = Path(__file__).resolve().parents[2]
ROWS = WINDOW_ROWS + 20_000
"""The first window is written while the second is predicted."""


def started(folder: Path, model: Path) -> subprocess.Popen[str]:
    """Start the verb on `texts.jsonl` of a folder."""
    fields = {"model": str(model), "file": "texts.jsonl", "output": "out.jsonl", "precision": "fp32"}
    return subprocess.Popen(
        [sys.executable, "-m", "experiments", "predict", *(f"--{name}={value}" for name, value in fields.items())],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )


def unfinished(folder: Path, process: subprocess.Popen[str]) -> Path:
    """Wait until a prediction has written answers, and return their file."""
    while not (found := [path for path in folder.glob(".out.jsonl.*") if path.stat().st_size]):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    return found[0]


def write_texts(folder: Path) -> list[str]:
    texts = [f"{at} {TEXTS[at % len(TEXTS)]}" for at in range(ROWS)]
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return texts


@pytest.mark.slow
def test_a_killed_prediction_starts_again(tmp_path: Path, classifier_folder: Path, classifier: Predictor) -> None:
    texts = write_texts(tmp_path)
    process = started(tmp_path, classifier_folder)
    left = unfinished(tmp_path, process)
    assert stat.S_IMODE(left.stat().st_mode) == 0o600
    process.send_signal(signal.SIGINT)
    assert "interrupted." in process.communicate(timeout=480)[1]
    assert process.returncode == 130
    assert [path.name for path in tmp_path.iterdir()] == ["texts.jsonl"]
    process = started(tmp_path, classifier_folder)
    left = unfinished(tmp_path, process)
    process.kill()
    process.communicate(timeout=480)
    assert {path.name for path in tmp_path.iterdir()} == {"texts.jsonl", left.name}
    last = started(tmp_path, classifier_folder)
    assert f"Predicted {ROWS:,} rows" in last.communicate(timeout=900)[1]
    result = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [each["row"] for each in result] == list(range(1, ROWS + 1))
    for at in range(0, ROWS, 970):
        (single,) = classifier.answer(texts[at])
        assert result[at] == {"row": at + 1, **single, "score": pytest.approx(single["score"], abs=1e-5)}


def test_an_output_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    with pytest.raises(InputError, match=r"out\.jsonl was created meanwhile"), new_file(output):
        output.write_text("theirs")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["theirs"]
