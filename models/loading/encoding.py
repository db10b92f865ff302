"""Tokenized inputs, and padded batches of them."""

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
    """Token types: 0 for the first text, 1 for the second. None for a single text, or a model without token types."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """One tokenized input."""

    example: Any
    """The example, as returned by the task's `read`."""
    rows: tuple[Row, ...]
    """One row, or one row per window for a question with a long context."""
    detail: Any = None
    """Data that the task needs to turn the model's output into an answer."""
    new_tokens: int = 0
    """Most tokens to generate; each is one run of the model. 0 if the model runs only once."""

    @property
    def length(self) -> int:
        """Tokens of the longest row."""
        return max(len(row.ids) for row in self.rows)

    @property
    def cost(self) -> int:
        """Tokens that the model processes: the tokens of all rows and the generated tokens."""
        return sum(len(row.ids) for row in self.rows) + self.new_tokens


@dataclass(frozen=True, kw_only=True)
class Padding:
    """Tokens and side for padding the shorter rows of a batch."""

    token: int
    type: int
    on_left: bool

    def leftwards(self) -> Padding:
        """Return a copy that pads on the left."""
        return replace(self, on_left=True)


def pad_rows(rows: Sequence[Row], padding: Padding, device: str, width: int | None = None) -> dict[str, Any]:
    """Return the model's inputs, padded to the shape (rows, `width`), by default the tokens of the longest row.

    A batch without padding has no attention mask.
    """
    lengths = [len(row.ids) for row in rows]
    width = max(lengths) if width is None else width
    if min(lengths) == width:
        arrays = {"input_ids": np.array([row.ids for row in rows], dtype=np.int64)}
    else:
        arrays = {"input_ids": _pad_lines([row.ids for row in rows], width, padding.token, padding.on_left)}
        arrays["attention_mask"] = _pad_lines([[1] * length for length in lengths], width, 0, padding.on_left)
    if any(row.types is not None for row in rows):
        types = [row.types or [0] * len(row.ids) for row in rows]
        arrays["token_type_ids"] = _pad_lines(types, width, padding.type, padding.on_left)
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}


def _pad_lines(lines: Sequence[list[int]], width: int, fill_value: int, on_left: bool) -> np.ndarray:
    filled = np.full((len(lines), width), fill_value, dtype=np.int64)
    for row, line in zip(filled, lines, strict=True):
        row[width - len(line) if on_left else 0 : width if on_left else len(line)] = line
    return filled
