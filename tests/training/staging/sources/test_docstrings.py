"""The demo data is balanced, masked and reproducible, and no package is imported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from training.staging.sources.sources import (
    PACKAGES,
    docstring_file,
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    path = docstring_file(tmp_path_factory.mktemp("docstrings"))
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_the_demo_has_enough_balanced_rows(rows: list[dict[str, str]]) -> None:
    counts = Counter(row["label"] for row in rows)
    assert len(counts) >= 8
    assert len(set(counts.values())) == 1
    assert len(rows) >= 1_900


def test_no_text_names_its_own_package(rows: list[dict[str, str]]) -> None:
    for row in rows:
        for name in PACKAGES[row["label"]]:
            assert not re.search(rf"(?<![a-z]){re.escape(name)}(?![a-z])", row["text"].lower()), row


@pytest.mark.slow
def test_another_process_gives_the_same_rows_without_importing_a_package(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from training.staging.sources.sources import docstring_file;"
        f"print(docstring_file(Path({str(tmp_path / 'other')!r})).name);"
        "print([name for name in ('torch', 'numpy', 'pandas', 'sklearn', 'sympy') if name in sys.modules])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    name, imported = process.stdout.split("\n")[:2]
    local = docstring_file(tmp_path / "local")
    assert (name, imported) == (local.name, "[]")
    assert (tmp_path / "other" / name).read_bytes() == local.read_bytes()
