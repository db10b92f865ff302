"""Group rows into batches. Pure."""

from __future__ import annotations

from collections.abc import Sequence

CPU_TOKENS = 512
"""Most tokens of a batch, including padding. Larger batches are not faster: at this size a core multiplies at full
speed, and the activations still fit its cache (measured with MiniLM, 128 to 4,096 tokens)."""
CUDA_TOKENS = 65_536


def batches(lengths: Sequence[int], rows: Sequence[int], most_tokens: int) -> list[list[int]]:
    """Group inputs of similar length, and return the positions of each batch's inputs. The longest inputs come first.

    This order keeps a long input from running alone at the end. The cost of an input in tokens is its number of
    `rows` times the length of the longest input in its batch, to which it is padded.
    """
    result: list[list[int]] = []
    longest = taken = 0
    for position in sorted(range(len(lengths)), key=lambda at: (-lengths[at], at)):
        if result and (taken + rows[position]) * longest <= most_tokens:
            result[-1].append(position)
            taken += rows[position]
        else:
            result.append([position])
            longest, taken = lengths[position], rows[position]
    return result


def evaluation_batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Group rows as an evaluation does, and return the positions of each batch's rows.

    Rows are sorted by length, and equally long ones stay in order: see `Settings.evaluated` of the job. The longest
    batches come first, so that a long one does not run alone at the end.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)][::-1]
