"""Questions without an answer: labels, predictions and losses equal run_qa.py's, and scores the official script's.

The functions `run_qa_*` and `official_*` follow Hugging Face's `run_qa.py` and `utils_qa.py` (transformers 5.23) and
SQuAD's `evaluate-v2.0.py`, written from their text.
"""

from __future__ import annotations

import collections
import json
import re
import string
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from experiments.planning.load import Arm, load
from experiments.planning.plan import plan
from tests.support.job.arguments import job_argv
from tests.support.job.job_process import Job
from tests.support.job.squad_examples import ANSWERS, CONTEXT, answer, model_folder, staged
from tests.support.requests.staged import staged as staged_description
from tests.support.staging.fast_tokenizers import KINDS
from training.contract.errors import InputError
from training.job.data.channels import Channel, read_channel
from training.job.tasks import TASKS
from training.job.tasks.answer_spans import AnswerOptions, Windows, answers_of
from training.job.tasks.question_answering import LEARNT, exclude_padding
from training.staging.sources.request import Data, StagingRequest
from training.staging.stage import stage

TASK = TASKS["question-answering"]
LENGTH, STRIDE = 40, 12
Question = dict[str, Any]


def write(folder: Path, contexts: int) -> tuple[Path, list[Question]]:
    """Write a file in SQuAD's form, version 2, and return its questions: every second one has no answer."""
    questions, paragraphs = [], []
    for number in range(contexts):
        context = f"{'Nothing happened here. ' * number}{CONTEXT}"
        known = [(each, [answer(context, text)]) for each, text in ANSWERS.items()]
        known[0][1].append(answer(context, "The"))  # an article: nothing of it is left for the scores
        known += [(f"{each} And why?", []) for each in ANSWERS]
        own = [{"id": f"{number}-{at}", "question": each[0], "answers": each[1]} for at, each in enumerate(known)]
        questions += [{**each, "context": context} for each in own]
        paragraphs.append({"context": context, "qas": [{**each, "is_impossible": not each["answers"]} for each in own]})
    path = folder / "v2.json"
    path.write_text(json.dumps({"version": "v2.0", "data": [{"paragraphs": paragraphs}]}))
    return path, questions


def channel_of(folder: Path) -> Channel:
    return read_channel(folder, TASK.name, TASK.integer_columns)


def run_qa_windows(tokenizer: Any, question: Question) -> Any:
    order = [question["question"], question["context"]]
    right = tokenizer.padding_side == "right"
    return tokenizer(
        *(order if right else order[::-1]),
        truncation="only_second" if right else "only_first",
        max_length=LENGTH,
        stride=STRIDE,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )


def official_normalised(text: str) -> str:
    text = "".join(each for each in text.lower() if each not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def official_scores(question: Question, prediction: str) -> tuple[int, float]:
    golds = [each["text"] for each in question["answers"] if official_normalised(each["text"])] or [""]
    exact = max(int(official_normalised(gold) == official_normalised(prediction)) for gold in golds)
    best = 0.0
    for gold in golds:
        gold_tokens, tokens = official_normalised(gold).split(), official_normalised(prediction).split()
        same = sum((collections.Counter(gold_tokens) & collections.Counter(tokens)).values())
        if not gold_tokens or not tokens:
            best = max(best, int(gold_tokens == tokens))
        elif same:
            precision, recall = same / len(tokens), same / len(gold_tokens)
            best = max(best, 2 * precision * recall / (precision + recall))
    return exact, best


def run_qa_answer(
    question: Question, features: Any, cls: list[int], logits: tuple[Any, Any], right: bool, threshold: float
) -> str:
    """Return the prediction of `postprocess_qa_predictions` with version_2_with_negative."""
    spans, nulls = [], []
    for at, (starts, ends) in enumerate(zip(*logits, strict=True)):
        nulls.append(float(starts[cls[at]]) + float(ends[cls[at]]))
        sequence = features.sequence_ids(at)
        offsets = [each if sequence[k] == right else None for k, each in enumerate(features["offset_mapping"][at])]
        count = len(offsets)
        for start in np.argsort(starts[:count])[-1:-21:-1].tolist():
            for end in np.argsort(ends[:count])[-1:-21:-1].tolist():
                if offsets[start] is None or offsets[end] is None or end < start or end - start + 1 > 30:
                    continue
                spans.append((float(starts[start]) + float(ends[end]), offsets[start][0], offsets[end][1]))
    best = max(spans)
    return "" if min(nulls) - best[0] > threshold else question["context"][best[1] : best[2]]


@pytest.mark.parametrize("kind", ["wordpiece", "left_padding"])
@pytest.mark.parametrize("threshold", [0.0, -1.5, 1.5])
def test_predictions_are_run_qas_and_scores_the_official_scripts(kind: str, threshold: float, tmp_path: Path) -> None:
    tokenizer = KINDS[kind]()
    file, questions = write(tmp_path, 5)
    model = model_folder(tmp_path / "model", tokenizer)
    options = {"max_length": LENGTH, "doc_stride": STRIDE, "null_threshold": threshold}
    channel = channel_of(staged(tmp_path, file, model, **options)["validation"])
    right = tokenizer.padding_side == "right"
    random, starts, ends, labels, expected = np.random.default_rng(3), [], [], [], {}
    for question in questions:
        features = run_qa_windows(tokenizer, question)
        cls = [ids.index(tokenizer.cls_token_id) for ids in features["input_ids"]]
        logits = tuple(random.normal(size=(len(cls), LENGTH)).astype(np.float32) for _ in range(2))
        # A window's CLS token is a strong candidate, so that thresholds matter.
        for lines in logits:
            lines[np.arange(len(cls)), cls] += 1.5
        expected[question["id"]] = run_qa_answer(question, features, cls, logits, right, threshold)
        # Trainer's rows are padded to the longest, XLNet's on the left.
        widths = [0 if right else LENGTH - len(ids) for ids in features["input_ids"]]
        for each, made in zip(logits, (starts, ends), strict=True):
            made += [np.roll(line, width) for line, width in zip(each, widths, strict=True)]
        labels += widths
    assert len(starts) == len(channel.rows) > 2 * len(questions)
    positions = np.array(labels) + channel.rows.columns["start_position"]
    scorer = TASK.scorer(channel)
    metrics = scorer(SimpleNamespace(predictions=(np.stack(starts), np.stack(ends)), label_ids=(positions, positions)))
    rows = {row["id"]: row["prediction"] for row in scorer.rows()}
    assert rows == {name: text.strip() for name, text in expected.items()}
    scores = np.array([official_scores(question, expected[question["id"]]) for question in questions]) * 100
    has_answer = np.array([bool(question["answers"]) for question in questions])
    losses = [
        float(torch.nn.functional.cross_entropy(torch.tensor(np.stack(each)), torch.tensor(positions)))
        for each in (starts, ends)
    ]
    assert metrics == pytest.approx(
        {
            "loss": sum(losses) / 2,
            **dict(zip(("exact_match", "f1"), scores.mean(axis=0), strict=True)),
            **dict(zip(("HasAns_exact", "HasAns_f1"), scores[has_answer].mean(axis=0), strict=True)),
            **dict(zip(("NoAns_exact", "NoAns_f1"), scores[~has_answer].mean(axis=0), strict=True)),
            "exact_match_commonest": 50.0,
            "f1_commonest": 50.0,
        }
    )
    assert 0 < metrics["NoAns_exact"] < 100


@pytest.mark.parametrize("kind", ["wordpiece", "left_padding"])
def test_the_answer_of_an_unanswerable_question_is_the_cls_token(kind: str, tmp_path: Path) -> None:
    tokenizer = KINDS[kind]()
    file, questions = write(tmp_path, 3)
    model = model_folder(tmp_path / "model", tokenizer)
    rows = channel_of(staged(tmp_path, file, model, max_length=LENGTH, doc_stride=STRIDE)["train"]).rows
    at = 0
    for question in questions:
        for ids in run_qa_windows(tokenizer, question)["input_ids"]:
            assert rows[at]["input_ids"].tolist() == ids
            if not question["answers"]:
                cls = ids.index(tokenizer.cls_token_id)
                assert (rows[at]["start_position"], rows[at]["end_position"]) == (cls, cls)
            at += 1
    assert at == len(rows)


def test_losses_equal_a_plain_trainers(tmp_path: Path) -> None:
    """The rows are run_qa's (above); here are six steps on them, in our job and in Hugging Face's Trainer.

    Its loss would have a share of the padding.
    """
    file, _ = write(tmp_path, 3)
    model = model_folder(tmp_path / "model", KINDS["wordpiece"]())
    job = Job(tmp_path / "job", model).without_dropout()
    folders = staged(tmp_path, file, model, max_length=LENGTH, doc_stride=STRIDE)
    job.environment |= {f"SM_CHANNEL_{name.upper()}": str(path) for name, path in folders.items() if name != "model"}
    arguments = {"task": TASK.name, "max_length": LENGTH, "batch_size": 8, "max_steps": 6, "logging_steps": 1}
    ended = job.run(**arguments, length_grouping=False, learning_rate=1e-3, padding="max_length")
    from training.job.loop.job_trainer import train_sampler
    from training.job.processes.reporting import Events
    from training.job.settings.job_settings import resolve_settings

    argv = job_argv(**arguments, length_grouping=False, learning_rate=1e-3, padding="max_length")
    settings = resolve_settings(argv, job.environment, Events(enabled=False))
    order = train_sampler(settings).order(0).tolist()[:48]
    rows = []
    for row in (settings.train.rows[at] for at in order):
        padding = [0] * (LENGTH - len(row["input_ids"]))
        ids, types = row["input_ids"].tolist(), row["token_type_ids"].tolist()
        batch = {"input_ids": ids + padding, "token_type_ids": types + padding}
        batch["attention_mask"] = [1] * len(ids) + padding
        rows.append({**batch, "start_positions": row["start_position"], "end_positions": row["end_position"]})
    network = transformers.AutoModelForQuestionAnswering.from_pretrained(job.environment["SM_CHANNEL_MODEL"])
    exclude_padding(network)
    settings_of_trainer = transformers.TrainingArguments(
        output_dir=str(tmp_path / "out"), max_steps=6, per_device_train_batch_size=8, learning_rate=1e-3,
        logging_steps=1, report_to=[], use_cpu=True, disable_tqdm=True, train_sampling_strategy="sequential",
    )  # fmt: skip
    plain = transformers.Trainer(network, settings_of_trainer, train_dataset=rows)
    plain.train()
    theirs = [each["loss"] for each in plain.state.log_history if "loss" in each]
    assert ended.losses == pytest.approx(theirs, rel=1e-4)


def test_the_empty_answer_takes_its_place_among_the_others() -> None:
    windows = Windows(*(np.array(values) for values in ([0, 0], [0, 0], [0, 1], [1, 1])))
    starts = ends = [np.array([1.0]), np.array([0.5])]
    nulls = [(0.5, 1.0), (3.0, 3.0)]  # the lower sum counts: 1.5
    spans = [(0, 1), (2, 3)]

    def answers(options: AnswerOptions, top_k: int) -> list[str]:
        return [each["answer"] for each in answers_of("a b", spans, windows, starts, ends, options, top_k, nulls)]

    # The sums are 2 (a), 1.5 (nothing) and 1 (b).
    assert answers(AnswerOptions(null_threshold=0.0), 3) == ["a", "", "b"]
    assert answers(AnswerOptions(null_threshold=-0.6), 1) == [""]
    assert answers(AnswerOptions(null_threshold=0.5), 3) == ["a", "b", ""]
    assert answers(AnswerOptions(), 3) == ["a", "b"]
    # Probabilities are over both tokens of the context and the CLS token: 3 each of start and end.
    total = (np.exp([1.0, 0.5, 0.5]).sum(), np.exp([1.0, 0.5, 1.0]).sum())
    scores = answers_of("a b", spans, windows, starts, ends, AnswerOptions(null_threshold=0.0), 3, nulls)
    assert [each["score"] for each in scores] == pytest.approx(np.exp([2.0, 1.5, 1.0]) / np.prod(total))
    # A request decides before the record; without a record, its threshold is 0.
    assert AnswerOptions(null_threshold=0.5).handling_impossible(None).null_threshold == 0.5
    assert AnswerOptions(null_threshold=0.5).handling_impossible(False).null_threshold is None
    assert AnswerOptions().handling_impossible(True).null_threshold == 0.0


def test_they_are_counted_or_skipped(tmp_path: Path) -> None:
    file, questions = write(tmp_path, 3)
    model = model_folder(tmp_path / "model", KINDS["wordpiece"]())
    fields = {"task": TASK.name, "data": Data(train=str(file), validation=str(file)), "model": str(model)}
    learnt, skipped = (
        stage(StagingRequest(**fields, max_length=LENGTH, doc_stride=STRIDE, unanswerable=each), tmp_path / "home")
        for each in ("learn", "skip")
    )
    assert learnt.description.train.remarks == {LEARNT: len(questions) // 2}
    [remark] = skipped.description.train.remarks
    assert remark == "without an answer, left out (unanswerable: skip)"
    assert learnt.evaluation_key != skipped.evaluation_key
    from training.staging.tokens.staged import channel_phrase

    assert "15 questions without an answer, learnt as no answer" in channel_phrase(
        learnt.description, learnt.description.train
    )
    folder = Path(skipped.channels["validation"].removeprefix("file://"))
    scorer = TASK.scorer(channel_of(folder))
    zeros = np.zeros((len(channel_of(folder).rows), LENGTH))
    positions = channel_of(folder).rows.columns["start_position"]
    assert set(scorer(SimpleNamespace(predictions=(zeros, zeros), label_ids=(positions,) * 2))) == {
        "loss",
        "exact_match",
        "f1",
    }
    assert [row["id"] for row in scorer.rows()] == [each["id"] for each in questions if each["answers"]]
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for paragraph in rows[0]["data"][0]["paragraphs"]:
        paragraph["qas"] = [each for each in paragraph["qas"] if not each["answers"]]
    file.write_text(json.dumps(rows[0]))
    with pytest.raises(InputError, match=r"the training questions of .* have no answer, and unanswerable is 'skip'"):
        stage(StagingRequest(**fields, max_length=LENGTH, doc_stride=STRIDE, unanswerable="skip"), tmp_path / "home")


def test_a_model_of_answerable_questions_answers_every_question(tmp_path: Path) -> None:
    planned = Arm(label="a", experiment=load("squad-minilm", {"null_threshold": "0.5"}), is_baseline=True)
    [job] = plan("g", "own", [planned], 1, [staged_description()], tmp_path)
    assert job.model is not None
    assert "null_threshold" not in job.model.answering
    assert TASK.recorded_options(job.model.answering, {LEARNT: 1}) == job.model.answering
    assert TASK.recorded_options({"null_threshold": 0.5}, {LEARNT: 1}) == {"null_threshold": 0.5}
