"""docs/benchmarks.md and the files that it is generated from."""

from __future__ import annotations

import json

from benchmarks.support.results import FOLDER, PAGE, SUMMARY, page


def test_the_page_is_that_of_the_result_files() -> None:
    assert PAGE.read_text() == page()


def test_every_line_of_the_summary_was_measured() -> None:
    for _, name, row_name in SUMMARY:
        rows = json.loads((FOLDER / f"{name}.json").read_text())["rows"]
        assert row_name in [row["name"] for row in rows]
