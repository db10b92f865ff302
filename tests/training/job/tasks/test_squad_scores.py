"""Exact match and F1, worked out by hand and compared with the official script's behaviour."""

from __future__ import annotations

import pytest

from tasks import squad_scores


@pytest.mark.parametrize(
    ("answer", "normalised"),
    [
        ("The  Denver\tBroncos!", "denver broncos"),
        ("a an the", ""),
        ("theatre and anthem", "theatre and anthem"),
        # Punctuation is removed first, so the parts become one word, and an article within it is kept.
        ("rock-and-the-roll", "rockandtheroll"),
        ("U.S. $1,000", "us 1000"),
        # ASCII punctuation only: the typographic dash, quotes and the degree sign stay.
        ("“24–10”", "“24–10”"),
        ("ÉTÉ", "été"),
        # Word boundaries are Unicode's, so this is not an article.
        ("thé", "thé"),
        ("l’a", "l’"),
        ("\u00a0x\u2003y", "x y"),
        ("", ""),
    ],
)
def test_answers_are_normalised_like_the_official_script(answer: str, normalised: str) -> None:
    assert squad_scores.normalised(answer) == normalised


@pytest.mark.parametrize(
    ("prediction", "references", "exact", "f1"),
    [
        ("the Broncos", ["Broncos."], 100, 100),
        # 1 shared word of 1 and 2: precision 1, recall 1/2, F1 2/3.
        ("Broncos", ["Denver Broncos"], 0, 200 / 3),
        # Words are counted with multiplicity: {x:2} against {x:1, y:2} share 1 of 2 and 3, so F1 is 2/5.
        ("x x", ["x y y"], 0, 40),
        ("Panthers", ["Broncos"], 0, 0),
        # The best of each score over all references.
        ("Denver Broncos", ["Broncos", "Denver", "Denver Broncos of 2016"], 0, 200 / 3),
        ("Santa Clara", ["Levi's Stadium", "santa clara"], 100, 100),
        # Both are empty once normalised, so they are equal, but they share no word.
        ("the", ["a"], 100, 0),
        ("", ["a word"], 0, 0),
        # Without an answer, version 2 counts an empty prediction as right.
        ("", [], 100, 100),
        ("x", [], 0, 0),
    ],
)
def test_scores_by_hand(prediction: str, references: list[str], exact: float, f1: float) -> None:
    assert squad_scores.scores(prediction, references) == (exact, pytest.approx(f1))
