"""The data of a job on MLflow's page of the data set, and in `data.md`."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.support.tracking.tracked import Tracked
from tracking.groups.planned_job import DataSource
from tracking.recording.run_artifacts import data_markdown, dataset_input
from tracking.server.store import open_store
from training.staging.tokens.description import ChannelDescription, DataDescription, Sample
from training.staging.tokens.lengths import LengthStatistics

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


def test_the_page_of_the_data_set_has_short_lines(tracked: Tracked, tracking_uri: str) -> None:
    store, run_id = open_store(tracking_uri), tracked.job("none")
    store.client.log_inputs(run_id, [dataset_input(DATA, "k" * 32)])
    [logged] = store.client.get_run(run_id).inputs.dataset_inputs
    profile = json.loads(logged.dataset.profile)
    assert profile == {
        "train": 4,
        "validation": 3,
        "train_tokens": 20,
        "train_lengths": "median 4, 95 % up to 8, longest 8 tokens",
        "train_rows_cut_by_max_length": 1,
        "validation_rows_cut_by_max_length": 0,
        "classes": "2; 'short' has 75.0% of the training rows, 'long' 25.0%",
        "repeated_rows": "2 of 3 validation rows are also training rows",
    }
    # MLflow's page cuts a value after 80 characters.
    assert all(len(str(value)) <= 80 for value in profile.values())
    assert [column["name"] for column in json.loads(logged.dataset.schema)["mlflow_colspec"]] == ["text", "label"]


def test_the_same_file_staged_in_two_ways_has_two_pages(tracked: Tracked, tracking_uri: str) -> None:
    store = open_store(tracking_uri)
    profiles = []
    for run_id, key, rows in ((tracked.job("none"), "1" * 32, 4), (tracked.job("none"), "2" * 32, 5)):
        store.client.log_inputs(run_id, [dataset_input(replace(DATA, rows={"train": rows}), key)])
        [logged] = store.client.get_run(run_id).inputs.dataset_inputs
        assert json.loads(logged.dataset.source) == {"uri": DATA.source, "sha256": DATA.digest}
        profiles.append(json.loads(logged.dataset.profile)["train"])
    assert profiles == [4, 5]


def test_data_without_a_description_has_its_rows(tracked: Tracked, tracking_uri: str) -> None:
    store, run_id = open_store(tracking_uri), tracked.job("none")
    plain = replace(DATA, columns={}, description=None)
    store.client.log_inputs(run_id, [dataset_input(plain, "p" * 32)])
    [logged] = store.client.get_run(run_id).inputs.dataset_inputs
    assert json.loads(logged.dataset.profile) == {"train": 4, "validation": 3}
    assert not logged.dataset.schema
    assert data_markdown(plain) is None


def test_sample_rows_are_text_without_markup() -> None:
    page = data_markdown(DATA)
    assert page is not None
    assert page.splitlines()[0] == "# a\\|b.csv"
    assert "- **train**: 4 rows, 20 tokens, median 4" in page
    assert page.splitlines()[-1] == ("| 1 | short | dog &lt;b&gt; \\| !\\[x\\](http\\://x.y/z) |")
