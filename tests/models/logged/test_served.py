"""MLflow's own commands on a logged model, as a user types them in an empty folder without trainfare on the path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.models.made_models import LABELS
from tests.support.models.place import Place
from tests.support.models.served import served

SENTENCE = "Winter is coming and it will be dark soon."


@pytest.fixture
def address(place: Place, archive_of: Callable[[str], Path]) -> str:
    """The address of a logged classifier."""
    run = place.run(archive_of("classification"))
    place.log(run)
    return f"models:/{place.again(run).data.tags['platform.model_id']}"


@pytest.mark.slow
def test_texts_are_classified_over_http(place: Place, address: str) -> None:
    with served(place, address) as ask:
        status, [single] = ask({"inputs": SENTENCE})
        assert status == 200
        assert single["label"] in LABELS
        _, several = ask({"inputs": [SENTENCE, "[1]", "word " * 1000, SENTENCE]})
        assert several[0] == several[3] == pytest.approx(single, abs=1e-5)
        assert len(several) == 4
        split = {"columns": ["text"], "data": [[SENTENCE], ["b"]]}
        records = [{"text": SENTENCE}, {"text": "b"}]
        for body in ({"dataframe_split": split}, {"dataframe_records": records}):
            _, answers = ask(body)
            assert (len(answers), answers[0]) == (2, pytest.approx(single, abs=1e-5))
        for wrong in (b"", b"{", {"inputs": []}, {"inputs": None}, {}):
            assert ask(wrong)[0] == 400, wrong
        for typed in (1, True, [SENTENCE, 2], [None], [{"text": 1}], [[1], [2]]):
            assert ask({"inputs": typed})[0] == 400, typed
        assert ask({"inputs": SENTENCE}) == (200, [single])
