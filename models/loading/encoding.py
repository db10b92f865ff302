"""Inputs as tokens, and tokens as padded batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a batch."""

    ids: list[int]
    """Token ids, special tokens included, without padding."""
    types: list[int] | None
    """Which of two texts each token belongs to; None of a single text, or where the model takes none."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """One input, tokenised."""

    example: Any
    """What was asked, as the task read it."""
    rows: tuple[Row, ...]
    """One row; of a question with a long context one a window."""
    detail: Any = None
    """What the task needs to make an answer of what the model returns."""
    new_tokens: int = 0
    """At most so many tokens follow, one run of the model each; 0 where it is run once."""

    @property
    def length(self) -> int:
        """Tokens of the longest row."""
        return max(len(row.ids) for row in self.rows)

    @property
    def cost(self) -> int:
        """Tokens that the model works on: those of all rows, and those that follow."""
        return sum(len(row.ids) for row in self.rows) + self.new_tokens


@dataclass(frozen=True, kw_only=True)
class Padding:
    """What fills up the shorter rows of a batch."""

    token: int
    type: int
    on_left: bool

    def leftwards(self) -> Padding:
        """Return the same on the left."""
        return replace(self, on_left=True)


def padded(rows: Sequence[Row], padding: Padding, device: str) -> dict[str, Any]:
    """Return the arguments of a model: rows x the longest row's tokens. A batch without padding has no mask."""
    lengths = [len(row.ids) for row in rows]
    width = max(lengths)
    if min(lengths) == width:
        arrays = {"input_ids": np.array([row.ids for row in rows], dtype=np.int64)}
    else:
        arrays = {"input_ids": _filled([row.ids for row in rows], width, padding.token, padding.on_left)}
        arrays["attention_mask"] = _filled([[1] * length for length in lengths], width, 0, padding.on_left)
    if any(row.types is not None for row in rows):
        types = [row.types or [0] * len(row.ids) for row in rows]
        arrays["token_type_ids"] = _filled(types, width, padding.type, padding.on_left)
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}


def _filled(lines: Sequence[list[int]], width: int, filler: int, on_left: bool) -> np.ndarray:
    filled = np.full((len(lines), width), filler, dtype=np.int64)
    for row, line in zip(filled, lines, strict=True):
        row[width - len(line) if on_left else 0 : width if on_left else len(line)] = line
    return filled
