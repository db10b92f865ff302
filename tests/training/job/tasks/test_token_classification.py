"""Token classification: entities against golden numbers, tokens of words, windows, losses and bad rows."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pytest

from models.inference.predictor import load_predictor
from tests.support.job.job_process import Job
from tests.support.models.task_models import save, sizes
from tests.support.staging.fast_tokenizers import CORPUS, KINDS, byte_level, wordpiece
from training.contract.errors import InputError
from training.job.data.channels import Channel, read_channel
from training.job.tasks import TASKS
from training.job.tasks.token_classification import Entity, entities, entity_rows, windows
from training.staging.sources.request import Data, StagingRequest
from training.staging.sources.sources import label_names
from training.staging.stage import Staged, stage

TASK = TASKS["token-classification"]
KINDS_OF_ENTITIES = ("PER", "LOC")


def tagged(letters: str) -> list[str]:
    return ["O"] * 3 + [f"{letter}-{kind}" for letter in letters for kind in KINDS_OF_ENTITIES]


def random_pairs(tags: Sequence[str]) -> list[tuple[list[str], list[str]]]:
    """Return 200 sentences of random tags, and predictions of which four in five words are right."""
    first, second = random.Random(1), random.Random(2)
    actual = [[first.choice(tags) for _ in range(length)] for length in (first.randint(1, 12) for _ in range(200))]
    return [(each, [tag if second.random() < 0.8 else second.choice(tags) for tag in each]) for each in actual]


@pytest.mark.parametrize(
    ("tags", "scores"),
    [
        # F1, precision and recall of seqeval 1.2.2 in its default mode, then the F1 and the support of each type.
        (
            tagged("BI"),
            (
                0.7870579382994732,
                0.7948328267477204,
                0.7794336810730254,
                {"LOC": (0.8011611030478955, 351), "PER": (0.771875, 320)},
            ),
        ),
        (
            tagged("BIES"),
            (
                0.8261851015801354,
                0.8280542986425339,
                0.8243243243243243,
                {"LOC": (0.8347280334728033, 477), "PER": (0.8161764705882353, 411)},
            ),
        ),
        (
            ["O", "O", "B", "I"],
            (0.7700312174817899, 0.7773109243697479, 0.7628865979381443, {"_": (0.7700312174817899, 485)}),
        ),
    ],
)
def test_scores_equal_seqeval(tags: list[str], scores: Any) -> None:
    rows = entity_rows(random_pairs(tags))
    assert [rows[0]["f1"], rows[0]["precision"], rows[0]["recall"]] == pytest.approx(
        [100 * each for each in scores[:3]]
    )
    kinds = {row["label"]: (row["f1"], row["support"]) for row in rows[1:]}
    assert kinds == {name: (pytest.approx(100 * f1), support) for name, (f1, support) in scores[3].items()}


def test_entities_of_each_scheme_by_hand() -> None:
    expected = [Entity("PER", 0, 1), Entity("LOC", 3, 3), Entity("PER", 4, 4)]
    assert entities(["B-PER", "I-PER", "O", "B-LOC", "B-PER"]) == expected
    assert entities(["I-PER", "I-PER", "O", "I-LOC", "I-PER"]) == expected  # IOB1
    assert entities(["B-PER", "E-PER", "O", "S-LOC", "S-PER"]) == expected
    assert entities(["B-PER", "L-PER", "O", "U-LOC", "U-PER"]) == expected
    # After an end, a tag of the same type begins an entity.
    assert entities(["E-a", "I-a", "M-a", "S-a", "I-a"]) == [Entity("a", 0, 0), Entity("a", 1, 2), *singles("a", 3, 4)]


def singles(kind: str, *words: int) -> list[Entity]:
    return [Entity(kind, word, word) for word in words]


def encoding(tokens: int) -> Any:
    """Return what a tokenizer makes of one-letter words: a token each, between two special ones."""
    offsets = [(2 * at, 2 * at + 1) for at in range(tokens)]
    return SimpleNamespace(
        ids=[-1, *range(tokens), -2], offsets=[(0, 0), *offsets, (0, 0)], sequence_ids=[None, *[0] * tokens, None]
    )


def test_windows_by_hand() -> None:
    """Windows of 8 tokens share 2. Tokens 6 and 7 are in two of them: 6 is farther from the end of the first."""
    spans = [(2 * at, 2 * at + 1) for at in range(20)]
    first, second, third = windows(encoding(20), spans, 10)
    assert [each.ids for each in (first, second, third)] == [
        [-1, *range(8), -2],
        [-1, *range(6, 14), -2],
        [-1, *range(12, 20), -2],
    ]
    assert first.words == [-1, *range(7), -1, -1]
    assert second.words == [-1, -1, *range(7, 13), -1, -1]
    assert third.words == [-1, -1, *range(13, 20), -1]


@pytest.mark.parametrize("length", range(3, 30))
def test_every_word_is_read_once(length: int) -> None:
    spans = [(2 * at, 2 * at + 1) for at in range(23)]
    made = windows(encoding(23), spans, length)
    assert sorted(word for each in made for word in each.words if word >= 0) == list(range(23))
    assert all(word in (-1, token) for each in made for token, word in zip(each.ids, each.words, strict=True))
    assert max(len(each.ids) for each in made) <= length


@pytest.mark.parametrize("kind", KINDS)
def test_each_word_has_its_first_token(kind: str) -> None:
    """Also for tokenizers that join a blank to a word, and for words with punctuation. Blank words have no token."""
    words = [*" ".join(CORPUS).split(), "U.S.", "\u00a0", "in"]
    text, tokenizer = " ".join(words), KINDS[kind]()
    spans = [(len(" ".join(words[:at])) + (at > 0), len(" ".join(words[: at + 1]))) for at in range(len(words))]
    made = tokenizer(text).encodings[0]
    [window] = windows(made, spans, None)
    found = {word: token for token, word in enumerate(window.words) if word >= 0}
    assert sorted({*range(len(words))} - {*found}) in ([], [len(words) - 2])
    for word, token in found.items():
        assert made.offsets[token][0] <= spans[word][0] < made.offsets[token][1], words[word]
    if kind == "wordpiece":
        split = tokenizer(words, is_split_into_words=True)
        assert window.ids == split["input_ids"]
        assert found == {word: split.word_ids().index(word) for word in found}


SENTENCES = [
    (
        "The Denver Broncos defeated \ufe0f the Carolina Panthers in Santa Clara",
        "O B-team I-team O B-team O B-team I-team O O B-place",
    ),
    ("Saint Bernadette in Lourdes", "B-person I-person O B-place"),
    ("Who won ?", "O O O"),
]
ROWS = [{"tokens": words.split(" "), "ner_tags": tags.split()} for words, tags in SENTENCES]


def model_folder(folder: Path, tokenizer: Any, **fields: Any) -> Path:
    """Write a random BERT for the tags of `ROWS`."""
    from transformers import BertConfig, BertForTokenClassification, set_seed

    set_seed(1)
    names = dict(enumerate(sorted({tag for row in ROWS for tag in row["ner_tags"]})))
    config = BertConfig(**sizes(tokenizer, 128), id2label=names, **fields)
    return save(folder, BertForTokenClassification(config), tokenizer)


def staged(folder: Path, model: Path, rows: list[dict[str, Any]], length: int = 16, **data: Any) -> Staged:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    fields = Data(train=str(file), validation=str(file), **data)
    request = StagingRequest(task=TASK.name, data=fields, model=str(model), max_length=length)
    return stage(request, folder / "home")


def folder_of(made: Staged, channel: str) -> Path:
    return Path(unquote(urlparse(made.channels[channel]).path))


def perfect(channel: Channel) -> Any:
    """Return predictions that equal the labels, as Trainer gathers them: padded with -100."""
    rows, length = len(channel.rows), int(channel.rows.lengths.max())
    labels = np.full((rows, length), -100)
    for line, at in zip(labels, range(rows), strict=True):
        line[: channel.rows.lengths[at]] = channel.rows[at]["tags"]
    losses = np.where(labels >= 0, 0.5, 0.0)
    return SimpleNamespace(predictions=np.stack([labels, losses], axis=-1), label_ids=labels)


def test_perfect_predictions_in_windows(tmp_path: Path) -> None:
    """A word without a token, here of an entity, counts as O: of six entities, five are found."""
    made = staged(tmp_path, model_folder(tmp_path / "model", wordpiece()), ROWS)
    assert made.description.validation.cut_rows >= 1
    channel = read_channel(folder_of(made, "validation"), TASK.name, (), TASK.list_columns)
    scorer = TASK.scorer(replace(channel, rows=channel.rows.sorted_by_length()))
    order = channel.rows.numbers[channel.rows.sorted_by_length().numbers]
    prediction = perfect(channel)
    scores = scorer(SimpleNamespace(predictions=prediction.predictions[order], label_ids=prediction.label_ids[order]))
    f1, recall = pytest.approx(1000 / 11), pytest.approx(500 / 6)
    assert scores == {"f1": f1, "precision": 100.0, "recall": recall, "loss": 0.5, "f1_commonest": 0.0}
    tables = scorer.tables()
    assert [row["label"] for row in tables["per_entity.json"]] == ["all", "person", "place", "team"]
    assert tables["per_entity.json"][3] == {
        "label": "team",
        "precision": 100.0,
        "recall": pytest.approx(200 / 3),
        "f1": pytest.approx(80.0),
        "support": 3,
    }
    assert tables["predictions.json"][1] == {
        "row": 2,
        "text": "Saint Bernadette in Lourdes",
        "label": "person: Saint Bernadette; place: Lourdes",
        "prediction": "person: Saint Bernadette; place: Lourdes",
    }
    rows = scorer.rows()
    assert [row["reference"] for row in rows] == [row["ner_tags"] for row in ROWS]
    assert rows[0]["prediction"] == ["O", "B-team", "I-team", "O", "O", "O", *ROWS[0]["ner_tags"][6:]]


def test_losses_equal_a_plain_trainer(tmp_path: Path) -> None:
    """Every step takes all rows, so the order of the rows does not matter."""
    from benchmarks.opponents import token_classification

    folder = model_folder(tmp_path / "model", wordpiece(), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    made = staged(tmp_path, folder, ROWS, 128)
    job = Job(tmp_path / "job", folder)
    job.environment |= {f"SM_CHANNEL_{name.upper()}": str(folder_of(made, name)) for name in ("train", "validation")}
    settings = {"learning_rate": 0.01, "max_steps": 4}
    ended = job.run(task=TASK.name, max_length=128, batch_size=3, **settings)
    arguments = {"output_dir": str(tmp_path), "per_device_train_batch_size": 3, "logging_steps": 1, "use_cpu": True}
    trainer = token_classification.trainer(str(folder), ROWS, {**arguments, **settings, "report_to": []})
    trainer.train()
    expected = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert ended.losses == pytest.approx(expected, rel=1e-4)
    assert expected[-1] < 0.6 * expected[0]


def test_a_text_is_answered_as_its_words(tmp_path: Path) -> None:
    """In windows, too; the places of the entities are characters of the text."""
    predictor = load_predictor(model_folder(tmp_path, byte_level()), precision="fp32", max_length=16)
    text = "The  Broncos, of Denver (Colorado), won;\n@who said 24–10?"
    words = ["The", "Broncos", ",", "of", "Denver", "(", "Colorado", ")", ",", "won", ";", "@who", "said", "24–10", "?"]
    of_text, of_words, of_list = predictor.answer([" ".join(words), {"tokens": words}, words])
    assert of_text == of_words == of_list
    assert len(predictor.encode(predictor.read({"tokens": words}))[0].rows) > 1
    [answer] = predictor.answer(text)
    assert answer["entities"]
    assert [text[each["start"] : each["end"]] for each in answer["entities"]] == [
        each["word"] for each in answer["entities"]
    ]
    assert [text[start:end] for start, end in predictor.read(text)[0].detail] == words
    assert predictor.answer({"tokens": ["\u200d"]})[0].keys() == {"entities"}


@pytest.mark.parametrize(
    ("changed", "data", "message"),
    [
        ({"ner_tags": ["O"]}, {}, r"line 2: column 'tokens' has 4 words, but 'ner_tags' has 1 tags"),
        ({"tokens": [], "ner_tags": []}, {}, r"line 2: column 'tokens' is empty; leave the row out"),
        ({"tokens": ["a", 7.5, "b", "c"]}, {}, r"line 2: column 'tokens' must be text, not 7.5"),
        ({"ner_tags": "O O O O"}, {}, r"line 2: column 'ner_tags' must be a list, not 'O O O O'; a table holds"),
        ({"ner_tags": ["O", None, "O", "O"]}, {}, r"line 2: column 'ner_tags' must be a word or a number, not null"),
        ({"ner_tags": ["NOUN", "O", "O", "O"]}, {}, r"the tags 'NOUN' follow none of the schemes IOB, BIOES.*S-NOUN"),
        ({}, {"labels": ["O", "B-team", "I-team"]}, r"label 'B-place' is not in data.labels"),
        ({"ner_tags": [3, 3, 0, 1]}, {}, "the tags '0', '1', '3' follow none of the schemes"),
    ],
)
def test_bad_rows(changed: dict[str, Any], data: dict[str, Any], message: str, tmp_path: Path) -> None:
    model = model_folder(tmp_path / "model", wordpiece())
    with pytest.raises(InputError, match=message):
        staged(tmp_path, model, [ROWS[0], {**ROWS[1], **changed}, ROWS[2]], **data)


def test_class_numbers_need_names(tmp_path: Path) -> None:
    rows = [{"tokens": ["in", "Lourdes"], "ner_tags": [0, 1]}]
    model = model_folder(tmp_path / "model", wordpiece())
    with pytest.raises(
        InputError, match=r"rows\.jsonl: the tags are class numbers \('0', '1'\); name them .* data.labels"
    ):
        staged(tmp_path, model, rows)
    made = staged(tmp_path, model, rows, labels=["O", "B-place"])
    assert made.description.label_names == ("O", "B-place")
    made = staged(
        tmp_path, model, [{**rows[0], "ner_tags": ["ADP", "NOUN"]}], label_map={"O": ["ADP"], "S-x": ["NOUN"]}
    )
    assert made.description.train.class_counts == (1, 1)


def test_names_of_class_numbers_in_lists() -> None:
    datasets = pytest.importorskip("datasets")
    names = ["O", "B-place"]
    assert label_names(datasets.List(datasets.ClassLabel(names=names))) == tuple(names)
    assert label_names(datasets.ClassLabel(names=names)) == tuple(names)
    assert label_names(datasets.Value("string")) == ()
