"""Exact match and F1, worked out by hand and from the official script's behaviour."""

from __future__ import annotations

import pytest

from tasks import squad_scores


@pytest.mark.parametrize(
    ("answer", "normalised"),
    [
        ("The  Denver\tBroncos!", "denver broncos"),
        ("a an the", ""),
        ("theatre and anthem", "theatre and anthem"),
        # Punctuation is removed first, so the parts become one word, which keeps the article in it.
        ("rock-and-the-roll", "rockandtheroll"),
        ("U.S. $1,000", "us 1000"),
        # Only ASCII punctuation is removed: the typographic dash and quotes stay.
        ("“24–10”", "“24–10”"),
        ("ÉTÉ", "été"),
        # Word boundaries follow Unicode, so this does not contain an article.
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
        # Of 1 and 2 words, 1 is shared: precision 1, recall 1/2, F1 2/3.
        ("Broncos", ["Denver Broncos"], 0, 200 / 3),
        # Repeated words count repeatedly: {x:2} and {x:1, y:2} share 1 of 2 and 3 words, so F1 is 2/5.
        ("x x", ["x y y"], 0, 40),
        ("Panthers", ["Broncos"], 0, 0),
        # Each score is the best over all references.
        ("Denver Broncos", ["Broncos", "Denver", "Denver Broncos of 2016"], 0, 200 / 3),
        ("Santa Clara", ["Levi's Stadium", "santa clara"], 100, 100),
        # Both are empty after normalisation, so they are equal, but they share no word.
        ("the", ["a"], 100, 0),
        ("", ["a word"], 0, 0),
        # For a question without an answer, version 2 counts an empty prediction as right.
        ("", [], 100, 100),
        ("x", [], 0, 0),
    ],
)
def test_scores_by_hand(prediction: str, references: list[str], exact: float, f1: float) -> None:
    assert squad_scores.scores(prediction, references) == (exact, pytest.approx(f1))
