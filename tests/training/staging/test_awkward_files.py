"""Files as people have them: each is read with the right classes, or refused in one message with the way on."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.staging.tables import MODEL, write
from training.contract.errors import InputError, messages_of
from training.staging.models.model_files import locate
from training.staging.sources.request import Data, StagingRequest
from training.staging.stage import stage
from training.staging.tokens.staged import Staged, phrases

LETTERS = [{"text": f"text {at}", "label": "ab"[at % 2]} for at in range(40)]


def staged(path: Path, task: str = "classification", **data: Any) -> Staged:
    fields = {"task": task, "data": {"train": str(path), **data}, "model": MODEL, "max_length": 16, "doc_stride": 4}
    return stage(StagingRequest.model_validate(fields), Path(os.environ["TRAINFARE_HOME"]))


def classes(path: Path, task: str = "classification", **data: Any) -> dict[str, int]:
    """Return the rows of each class, on both sides."""
    made = staged(path, task, **data).description
    counts = zip(made.train.class_counts, made.validation.class_counts, strict=True)
    return dict(zip(made.label_names, map(sum, counts), strict=True))


def refused(path: Path, task: str = "classification", **data: Any) -> str:
    with pytest.raises(InputError) as caught:
        staged(path, task, **data)
    return "; ".join(messages_of(caught.value)).replace(str(path), "FILE")


def map_in(message: str) -> dict[str, Any]:
    """Return the label map in a message, as a user would copy it."""
    match = re.search(r"data\.label_map: (\{.*\})", message)
    assert match is not None, message
    return dict(json.loads(match[1]))


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))


@pytest.fixture
def awkward(shared: Path) -> Path:
    return shared / "awkward"


NESTED = {"columns": {"text": "data.text", "label": "data.label"}}
LISTS = {"columns": {"label": "labels"}}


@pytest.mark.parametrize(
    ("name", "task", "fields", "counts"),
    [
        ("classlabel.parquet", "classification", {}, {"ham": 100, "spam": 100}),
        ("label_type_changes.jsonl", "classification", {}, {"0": 100, "1": 100}),
        ("label_bool.jsonl", "classification", {}, {"false": 30, "true": 30}),
        ("label_bool.jsonl", "classification", {"label_map": {"no": [False], "yes": [True]}}, {"no": 30, "yes": 30}),
        ("no_header.csv", "classification", {"header": ["text", "label"]}, {"neg": 30, "pos": 30}),
        ("nested.jsonl", "classification", NESTED, {"neg": 30, "pos": 30}),
        ("wrapped.json", "classification", {}, {"neg": 30, "pos": 30}),
        ("shards", "classification", {}, {"neg": 200, "pos": 200}),
        ("label_float.csv", "classification", {"label_map": {"low": [1.0], "high": [2.5]}}, {"low": 30, "high": 30}),
        ("multilabel.jsonl", "multi-label-classification", LISTS, {"neg": 30, "pos": 30, "x": 60}),
        ("null_text.jsonl", "classification", {"skip_bad_rows": True}, {"neg": 100, "pos": 100}),
    ],
)
def test_a_file_has_its_classes(
    awkward: Path, name: str, task: str, fields: dict[str, Any], counts: dict[str, int]
) -> None:
    assert classes(awkward / name, task, **fields) == counts


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cr_in_text.csv", "FILE line 59 has a carriage return that ends no line: put its field in quotation marks"),
        (
            "multi_hot_text.csv",
            "400 bad rows: FILE line 2: column 'label' is a list; for several labels a row, set task: multi-label-clas",
        ),
        (
            "null_text.jsonl",
            "FILE line 201: column 'text' must be text, not null; data.skip_bad_rows: true leaves out the rows with an",
        ),
        (
            "no_header.csv",
            "FILE line 1 has no column 'text'; it has 'boring story number 0', 'neg'. If that is a row, name the "
            "columns of the file in data.header.",
        ),
        (
            "nested.jsonl",
            "FILE line 1 has no column 'text'; it has 'data.text', 'data.label'. Did you mean 'data.text'?",
        ),
        (
            "label_float.csv",
            "FILE line 3: label '2.5' is a number with decimals: to predict numbers, set task: regression; to use them "
            "as classes, set data.label_map: {",
        ),
        (
            "multilabel.jsonl",
            "FILE line 1 has no column 'label'; it has 'text', 'labels'. Did you mean 'labels'? To train on 'labels', "
            "set data.columns.label: labels, and, if they are lists, task: multi-label-classification.",
        ),
    ],
)
def test_a_file_is_refused_with_the_way_on(awkward: Path, name: str, message: str) -> None:
    assert refused(awkward / name).startswith(message)


def test_shards_report_their_delimiters(awkward: Path) -> None:
    assert staged(awkward / "shards").source.endswith("shards (2 files, delimiter ',' or ';')")


def test_lists_of_zeros_and_ones_are_several_labels(awkward: Path, tmp_path: Path) -> None:
    """Each list has a number for each label, as text by pandas or NumPy, or as a list in JSON."""
    with (awkward / "multi_hot_text.csv").open() as file:
        rows = [json.loads(row["label"]) for row in csv.DictReader(file)]
    expected = {str(at): sum(row[at] for row in rows) for at in range(5)}
    assert classes(awkward / "multi_hot_text.csv", "multi-label-classification") == expected
    written = [{"text": f"t {at}", "label": row} for at, row in enumerate(rows)]
    assert classes(write(tmp_path / "a.jsonl", written), "multi-label-classification") == expected
    arrays = [{**row, "label": str(row["label"]).replace(",", "")} for row in written]
    path = write(tmp_path / "a.csv", arrays)
    assert classes(path, "multi-label-classification") == expected
    assert "is a list; for several labels a row, set task: multi-label-classification" in refused(path)


def test_labels_that_differ_in_case_or_blanks_have_a_map_that_joins_them(awkward: Path, tmp_path: Path) -> None:
    path = awkward / "case_classes.csv"
    [note] = staged(path).notes()
    assert note.startswith(
        "labels that differ only in case or blanks are classes of their own: 'Billing' (40), 'Refund' (40), "
        "'billing' (40), 'refund' (40); to join them, set data.label_map: "
    )
    assert classes(path, label_map=map_in(note)) == {"Billing": 100, "Refund": 100}
    validation = write(tmp_path / "v.csv", [{"text": f"v {at}", "label": "REFUND"} for at in range(3)])
    message = refused(path, validation=str(validation))
    assert message.startswith(f"{validation} line 2: label 'REFUND' is not in the training rows")
    joined = map_in(message)
    assert joined["Refund"] == ["Refund", "refund", "REFUND"]
    assert classes(path, label_map=joined, validation=str(validation)) == {"Billing": 100, "Refund": 103}


def test_labels_that_mean_no_label_are_noted(tmp_path: Path) -> None:
    rows = [*LETTERS, *({"text": f"none {at}", "label": name} for at, name in enumerate(["NaN"] * 5 + ["None"] * 5))]
    path = write(tmp_path / "a.csv", rows)
    [note] = staged(path).notes()
    assert note == (
        "'NaN' (4 training rows), 'None' (4 training rows) is a class: if it means no label, set data.skip_labels: "
        '["NaN", "None"]'
    )
    assert classes(path, skip_labels=json.loads(note.partition("skip_labels: ")[2])) == {"a": 20, "b": 20}


def test_many_whole_numbers_are_probably_no_classes(awkward: Path, tmp_path: Path) -> None:
    note = "101 classes for 210 rows, all whole numbers: to predict numbers, set task: regression"
    assert staged(awkward / "ratings_0_100.csv").notes() == [note]
    assert staged(awkward / "ratings_0_100.csv", "regression").notes() == []
    stars = [{"text": f"t {at}", "label": at % 5 + 1} for at in range(40)]
    assert staged(write(tmp_path / "a.csv", stars)).notes() == []


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_negative_labels_are_classes(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"a.{suffix}", [{"text": f"t {at}", "label": at % 3 - 1} for at in range(30)])
    assert classes(path) == {"-1": 10, "0": 10, "1": 10}
    assert classes(path, label_map={"bad": [-1], "good": [0, 1]}) == {"bad": 10, "good": 20}


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_the_map_for_decimals_works(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"a.{suffix}", [{"text": f"t {at}", "label": at % 11 / 2} for at in range(55)])
    message = refused(path)
    assert "is a number with decimals: to predict numbers, set task: regression" in message
    assert classes(path, label_map=map_in(message)) == {f"{at / 2:g}": 5 for at in range(11)}
    assert staged(path, "regression").description.train.rows == 44
    hundred = write(tmp_path / f"b.{suffix}", [{"text": f"t {at}", "label": at / 8} for at in range(60)])
    assert refused(hundred).endswith("to predict numbers, set task: regression")


def test_all_bad_rows_are_in_one_message_and_skipped_when_asked(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"text": f"text {at}", "label": "ab"[at % 2]} for at in range(5000)]
    for at in range(12):
        rows[100 + at]["text"] = " "
    for at in range(5):
        rows[200 + at]["label"] = ""
    rows[300]["text"] = rows[301]["text"] = None
    del rows[302]["label"]
    path = write(tmp_path / "a.jsonl", rows)
    assert refused(path) == (
        "20 bad rows: FILE line 101: column 'text' is empty (also 102, 103, 104, 105, 106 and 6 more); "
        "FILE line 201: column 'label' is empty (also 202, 203, 204, 205); "
        "FILE line 301: column 'text' must be text, not null (also 302); "
        "FILE line 303 has no column 'label'; it has 'text'; "
        "data.skip_bad_rows: true leaves out the rows with an empty or null value (20)"
    )
    made = staged(path, skip_bad_rows=True)
    assert made.train_rows + made.description.validation.rows == 4980
    assert phrases(made.description)["left out"] == "20 rows with an empty or null value"
    first = write(tmp_path / "b.jsonl", [{"text": "without a label"}, *rows[:20]])
    assert refused(first) == "FILE line 1 has no column 'label'; it has 'text'."
    assert classes(first, skip_bad_rows=True) == {"a": 10, "b": 10}
    assert "has no rows except those that data.skip_bad_rows leaves out" in refused(
        first, skip_bad_rows=True, columns={"text": "txt"}
    )


def test_broken_lines_are_in_one_message(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text,label\nok 1,a\nx,y,z\nok 2,b\nr\rs,a\n,b\nq" "r,a\n"q"r,a\n', newline="")
    assert refused(path) == (
        "4 bad rows: FILE line 3 has 3 fields, but the header has 2; FILE line 5 has a carriage return that ends no "
        "line: put its field in quotation marks, or, if carriage returns alone end the lines, replace them by "
        "newlines; "
        "FILE line 6: column 'text' is empty; FILE line 8 is malformed: ',' expected after '\"'; "
        "data.skip_bad_rows: true leaves out the rows with an empty or null value (1)"
    )
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": 1}\n{"text": "b",\n7\n{"text": null, "label": 1}\n')
    message = refused(tmp_path / "a.jsonl")
    assert message.startswith("3 bad rows: FILE line 2 is not JSON: ")
    assert "FILE line 3 must be a JSON object, not int; FILE line 4: column 'text' must be text, not null" in message


def test_both_files_and_their_labels_are_checked_at_once(tmp_path: Path) -> None:
    train = write(tmp_path / "a.csv", [*LETTERS, {"text": "", "label": "a"}])
    validation = write(tmp_path / "b.csv", [*LETTERS[:4], {"text": "v", "label": "c"}])
    message = refused(train, validation=str(validation))
    assert "FILE line 42: column 'text' is empty" in message
    assert f"{validation} line 6: label 'c' is not in the training rows" in message


def squad(tmp_path: Path, questions: Sequence[dict[str, Any]]) -> Path:
    context = "The Broncos won in 1999 in Denver."
    paragraphs = [{"context": context, "qas": questions}, {"context": "Rome is in Italy.", "qas": [question(99, None)]}]
    path = tmp_path / "squad.json"
    path.write_text(json.dumps({"version": "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]}))
    return path


def question(identifier: int, start: int | None) -> dict[str, Any]:
    answers = [] if start is None else [{"text": "1999", "answer_start": start}]
    return {"id": identifier, "question": f"When {identifier}?", "answers": answers, "is_impossible": start is None}


def test_questions_with_whole_numbers_as_ids(tmp_path: Path) -> None:
    """Half have no answer; the faults, an answer that is off by one and an id that occurs twice, come together."""
    good = [question(at, 19 if at % 2 else None) for at in range(10)]
    made = staged(squad(tmp_path, good), "question-answering")
    both = (made.description.train, made.description.validation)
    assert sum(sum(each.remarks.values()) for each in both) == 6
    bad = [*good, question(3, 19), question(20, 18)]
    assert refused(squad(tmp_path, bad), "question-answering") == (
        "2 bad rows: FILE question 11: the question id '3' is not unique; FILE question 12 ('20'): the answer '1999' "
        "is not at answer_start 18 of its context, which has ' 199'; it is at 19"
    )


def test_names_that_datasets_saved_are_kept(tmp_path: Path) -> None:
    import datasets

    rows = datasets.Dataset.from_list(
        [{"meta": {"text": f"t {at}"}, "text": f"t {at}", "label": at % 2} for at in range(20)]
    )
    rows = rows.cast_column("label", datasets.ClassLabel(names=["ham", "spam"]))
    rows.save_to_disk(tmp_path / "saved")
    rows.to_parquet(tmp_path / "a.parquet")
    datasets.DatasetDict(train=rows, test=rows).save_to_disk(tmp_path / "splits")
    named = {"ham": 10, "spam": 10}
    assert classes(tmp_path / "saved") == classes(tmp_path / "splits" / "train") == named
    for name in ("a.parquet", "saved"):
        assert classes(tmp_path / name, columns={"text": "meta.text"}) == named
    assert "to one of them, such as FILE/train" in refused(tmp_path / "splits")
    for name, field in (("saved", "set data.train to it"), ("splits", "set data.train to one of them")):
        hub = StagingRequest(data=Data(hub={"name": str(tmp_path / name)}), model=MODEL, max_length=16)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=field):
            stage(hub, tmp_path)


def test_dotted_paths_lead_into_objects(tmp_path: Path) -> None:
    rows = [{"review": {"body": f"t {at}"}, "meta": {"label": at % 2}, "text": None} for at in range(20)]
    columns = {"text": "review.body", "label": "meta.label"}
    for suffix in ("jsonl", "parquet"):
        path = write(tmp_path / f"a.{suffix}", rows)
        assert classes(path, columns=columns) == {"0": 10, "1": 10}
        assert "has no column 'label'; it has 'review.body', 'meta.label', 'text'" in refused(path)
    folder = tmp_path / "hub"
    folder.mkdir()
    write(folder / "train.parquet", rows)
    data = Data(hub={"name": str(folder)}, columns=columns)  # type: ignore[arg-type]
    made = stage(StagingRequest(data=data, model=MODEL, max_length=16), tmp_path)
    assert made.description.train.class_counts == (8, 8)


def test_objects_with_the_rows_in_a_list(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for indent in (None, 1):
        path.write_text(json.dumps({"version": 1, "data": LETTERS}, indent=indent))
        assert classes(path) == {"a": 20, "b": 20}
    path.write_text(json.dumps({"train": LETTERS, "test": LETTERS}))
    assert "an object with a single list of objects, not 2" in refused(path)
    path.write_text("".join(json.dumps({"messages": [{"role": "user"}], **row}) + "\n" for row in LETTERS))
    assert classes(path) == {"a": 20, "b": 20}


def test_blanks_in_the_header_and_numbers_as_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text , label\n" + "".join(f"t {at},{'ab'[at % 2]}\n" for at in range(20)))
    assert classes(path) == {"a": 10, "b": 10}
    numbers = write(tmp_path / "a.jsonl", [{"text": at, "label": "ab"[at % 2]} for at in range(20)])
    assert classes(numbers) == {"a": 10, "b": 10}
    assert all(each.text.isdecimal() for each in staged(numbers).description.samples)


def test_equal_texts_stay_on_one_side(awkward: Path, tmp_path: Path) -> None:
    made = staged(awkward / "all_leaked.csv")
    assert (made.description.repeated_rows, made.notes()) == (0, [])
    # Only one text: no split keeps it on one side.
    assert staged(awkward / "contradictory.csv").notes() == [
        "1 training text with several labels: no model can get all their rows right",
        "12 of 12 validation rows are also training rows: their score shows what the model remembers, not what it has "
        "learnt",
    ]
    # Texts of two rows each; 10 of 50 texts of each class are set aside.
    twice = write(tmp_path / "a.csv", [{"text": f"t {at % 100}", "label": at % 2} for at in range(200)])
    made = staged(twice)
    assert (made.train_rows, made.description.validation.rows, made.description.repeated_rows) == (160, 40, 0)
    validation = write(tmp_path / "b.csv", [{"text": f"t {at}", "label": at % 2} for at in range(91, 191)])
    made = staged(twice, validation=str(validation))
    assert (made.description.repeated_rows, made.notes()) == (9, [])


def test_labels_of_one_class_do_not_contradict(tmp_path: Path) -> None:
    rows = [{"text": f"t {at // 2}", "label": ("a", "A", "b", "b")[at % 4]} for at in range(40)]
    path = write(tmp_path / "a.csv", rows)
    assert "10 training texts with several labels" in " ".join(staged(path).notes())
    assert staged(path, label_map={"a": ["a", "A"], "b": ["b"]}).notes() == []


def test_max_length_beyond_a_hub_models_positions_is_refused(tmp_path: Path) -> None:
    """The model is in the cache of the Hub. Its tokenizer knows no limit, and its configuration does."""
    packaged = locate(MODEL).folder
    assert packaged is not None
    snapshot = tmp_path / "hub" / "models--team--model" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("1")
    for name in ("config.json", "tokenizer.json"):
        (snapshot / name).write_bytes((packaged / name).read_bytes())
    path = write(tmp_path / "a.csv", LETTERS)
    code = (
        "import sys; from pathlib import Path; from training.contract.errors import InputError\n"
        "from training.staging.stage import stage; from training.staging.sources.request import Data, StagingRequest\n"
        "for length in (512, 513):\n"
        f"  try: print(stage(StagingRequest(data=Data(train={str(path)!r}), model='team/model', max_length=length), "
        f"Path({str(tmp_path)!r})).train_rows)\n"
        "  except InputError as error: print(error)"
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines() == ["32", "max_length is 513, but team/model accepts at most 512 tokens"]
