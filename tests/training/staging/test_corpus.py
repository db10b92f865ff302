"""Files of every accepted kind have the same rows as in version 0.1.0, and those of every refused kind an error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.corpus.accepted import ACCEPTED, STAGED
from tests.support.corpus.expected import expected
from tests.support.corpus.reading import read, staged
from tests.support.corpus.refused import REFUSED
from training.contract.errors import InputError

EXPECTED = expected()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache of datasets")


def test_every_case_has_a_recorded_result() -> None:
    assert (EXPECTED["read"].keys(), EXPECTED["staged"].keys()) == (ACCEPTED.keys(), STAGED.keys())


@pytest.mark.parametrize("name", ACCEPTED)
def test_rows_are_read_as_before(name: str, tmp_path: Path) -> None:
    assert read(ACCEPTED[name], tmp_path) == EXPECTED["read"][name]


@pytest.mark.parametrize("name", STAGED)
def test_channels_have_the_same_content_as_before(name: str, tmp_path: Path) -> None:
    assert staged(STAGED[name], tmp_path) == EXPECTED["staged"][name]


@pytest.mark.parametrize("name", REFUSED)
def test_bad_files_are_refused_with_their_place(name: str, tmp_path: Path) -> None:
    case = REFUSED[name]
    with pytest.raises(InputError) as caught:
        read(case, tmp_path)
    message = str(caught.value)
    assert "\n" not in message, "one sentence"
    file = Path(str(case.data.get("train", next(iter(case.files))))).name
    assert file in message or case.mentions[0] in message
    rest = message.replace(str(tmp_path), "")
    for word in case.mentions:
        assert re.search(rf"(?<![0-9]){re.escape(word)}(?![0-9])", rest, re.IGNORECASE), f"{word} in {rest}"
