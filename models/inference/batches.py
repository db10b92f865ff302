"""Group rows of similar length into batches. Pure."""

from __future__ import annotations

from collections.abc import Sequence

MOST_TOKENS = {"cpu": 512, "cuda": 65_536}
"""Most tokens of a batch, including padding, by device. On a CPU, larger batches are not faster: at this size a core
multiplies at full speed, and the activations still fit its cache (measured with MiniLM, 128 to 4,096 tokens)."""


def batches(lengths: Sequence[int], most_tokens: int) -> list[list[int]]:
    """Group rows into batches of at most `most_tokens`, and return the positions of each batch's rows.

    Each row is padded to the longest of its batch. The longest rows come first, so that none runs alone at the end.
    """
    result: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lambda at: (-lengths[at], at)):
        if result and (len(result[-1]) + 1) * lengths[result[-1][0]] <= most_tokens:
            result[-1].append(position)
        else:
            result.append([position])
    return result


def evaluation_batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Group rows as an evaluation does, and return the positions of each batch's rows.

    Rows are sorted by length, and equally long ones stay in order: see `Settings.evaluated` of the job. The longest
    batches come first, so that a long one does not run alone at the end.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)][::-1]
