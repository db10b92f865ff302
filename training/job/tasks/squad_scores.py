"""Exact match and F1 as SQuAD's official script scores them, version 1.1. Pure.

Source: `evaluate-v1.1.py` of https://rajpurkar.github.io/SQuAD-explorer/ (Rajpurkar et al. 2016, arXiv:1606.05250).
"""

import collections
import re
import string
from typing import Callable, Sequence, Tuple

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(answer: str) -> str:
    """Return an answer in lower case, without ASCII punctuation, articles or repeated blanks."""
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split())


def exact_match(prediction: str, reference: str) -> float:
    """Return 100 if the normalised answers are equal, else 0."""
    return 100.0 * (normalised(prediction) == normalised(reference))


def f1(prediction: str, reference: str) -> float:
    """Return the F1 in percent of the normalised answers' words; 0 if they share no word."""
    predicted, expected = normalised(prediction).split(), normalised(reference).split()
    shared = sum((collections.Counter(predicted) & collections.Counter(expected)).values())
    return 200.0 * shared / (len(predicted) + len(expected)) if shared else 0.0


def scores(prediction: str, references: Sequence[str]) -> Tuple[float, float]:
    """Return (exact match, F1) in percent, each the best over the references.

    A question without references has no answer. For it, as in version 2 of SQuAD, an empty prediction is right.
    """
    if not references:
        score = 0.0 if normalised(prediction) else 100.0
        return score, score
    return best_score(exact_match, prediction, references), best_score(f1, prediction, references)


def best_score(score: Callable[[str, str], float], prediction: str, references: Sequence[str]) -> float:
    """Return the highest score over the references."""
    return max(score(prediction, reference) for reference in references)
