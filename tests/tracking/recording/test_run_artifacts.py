"""Tables as MLflow reads them."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.support.tracking.tracked import Tracked
from tracking.groups.planned_job import DataSource
from tracking.recording.run_artifacts import (
    class_rows,
    data_markdown,
    dataset_input,
    git_state,
    log_tables,
)
from tracking.server.store import open_store
from training.staging.tokens.staged import ChannelDescription, DataDescription, LengthStatistics, Sample

CLASSES = DataSource(
    name="reviews", source="a test", digest="d", rows={"train": 8, "validation": 4},
    label_names=("schlecht – 悪い", "neutral", "gut"), class_counts={"train": (5, 2, 1), "validation": (4, 0, 0)},
)  # fmt: skip


def test_class_rows_hold_counts_and_shares() -> None:
    assert class_rows(CLASSES) == [
        {
            "label": "schlecht – 悪い",
            "train_rows": 5,
            "train_share": 0.625,
            "validation_rows": 4,
            "validation_share": 1,
        },
        {"label": "neutral", "train_rows": 2, "train_share": 0.25, "validation_rows": 0, "validation_share": 0},
        {"label": "gut", "train_rows": 1, "train_share": 0.125, "validation_rows": 0, "validation_share": 0},
    ]


def test_mlflow_can_load_the_tables(tracked: Tracked, tracking_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logged twice, as by a launcher that resumes a job; the rows of one table have different columns."""
    store, run_id = open_store(tracking_uri), tracked.job("none")
    for _ in range(2):
        log_tables(store, run_id, {"a.json": [{"x": 1, "y": "é"}, {"x": 2, "z": None}], "empty.json": []})
        log_tables(store, run_id, {"class_distribution.json": class_rows(CLASSES)})
    listed = json.loads(store.client.get_run(run_id).data.tags["mlflow.loggedArtifacts"])
    assert [entry["path"] for entry in listed] == [
        "tables/a.json",
        "tables/empty.json",
        "tables/class_distribution.json",
    ]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)  # the reader looks for runs in the default store
    load = partial(store.client.load_table, tracked.experiment_id, run_ids=[run_id])
    table = load("tables/a.json")
    assert table.fillna("nothing").to_dict("records") == [
        {"x": 1, "y": "é", "z": "nothing"},
        {"x": 2, "y": "nothing", "z": "nothing"},
    ]
    assert load("tables/class_distribution.json")["train_rows"].tolist() == [5, 2, 1]


LENGTHS = LengthStatistics(mean_tokens=5, median_tokens=4, p95_tokens=8, max_tokens=8, at_max_length_share=0.25)
DATA = DataSource(
    name="a|b.csv",
    source="/data/a|b.csv",
    digest="d" * 64,
    rows={"train": 4, "validation": 3},
    columns={"text": "string", "label": "string or long"},
    description=DataDescription(
        task="classification",
        max_length=8,
        label_names=("long", "short"),
        train=ChannelDescription(rows=4, source_rows=4, lengths=LENGTHS, tokens=20, cut_rows=1, class_counts=(1, 3)),
        validation=ChannelDescription(rows=3, source_rows=3, cut_rows=0),
        repeated_rows=2,
        samples=(Sample(number=1, text="dog <b> | ![x](http://x.y/z)", label="short"),),
    ),
)


def test_the_data_set_of_a_run_has_rows_and_columns(tracked: Tracked, tracking_uri: str) -> None:
    store, run_id = open_store(tracking_uri), tracked.job("none")
    store.client.log_inputs(run_id, [dataset_input(DATA, "k" * 32)])
    [logged] = store.client.get_run(run_id).inputs.dataset_inputs
    assert json.loads(logged.dataset.profile) == {"train": 4, "validation": 3}
    assert [column["name"] for column in json.loads(logged.dataset.schema)["mlflow_colspec"]] == ["text", "label"]


def test_data_without_a_description_has_its_rows_and_a_page_for_each_key(tracked: Tracked, tracking_uri: str) -> None:
    store = open_store(tracking_uri)
    plain = replace(DATA, columns={}, description=None)
    for key, rows in (("1" * 32, 4), ("2" * 32, 5)):
        run_id = tracked.job("none")
        store.client.log_inputs(run_id, [dataset_input(replace(plain, rows={"train": rows}), key)])
        [logged] = store.client.get_run(run_id).inputs.dataset_inputs
        assert json.loads(logged.dataset.source) == {"uri": DATA.source, "sha256": DATA.digest}
        assert json.loads(logged.dataset.profile) == {"train": rows}
        assert not logged.dataset.schema
    assert data_markdown(plain) is None


def test_sample_rows_are_text_without_markup() -> None:
    page = data_markdown(DATA)
    assert page is not None
    assert page.splitlines()[0] == "# a\\|b.csv"
    assert "- **train**: 4 rows, 20 tokens, median 4" in page
    assert page.splitlines()[-1] == ("| 1 | short | dog &lt;b&gt; \\| !\\[x\\](http\\://x.y/z) |")


def test_only_tracked_files_are_local_changes(tmp_path: Path) -> None:
    (tmp_path / "source.py").write_text("a = 1\n")
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "--message", "x"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / ".trainfare").mkdir()
    for name in ("mlflow.db", "mlflow.db-wal", ".mlflow.db.lock", "runs.db", ".runs.db.lock", ".trainfare/state"):
        (tmp_path / name).touch()
    state = git_state(tmp_path)
    assert (len(state["commit"]), state["dirty"]) == (40, False)
    (tmp_path / "source.py").write_text("a = 2\n")
    assert git_state(tmp_path) == {**state, "dirty": True}
