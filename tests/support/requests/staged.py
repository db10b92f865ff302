"""Smallest result of a staging."""

from __future__ import annotations

from training.staging.tokens.staged import LengthStatistics, Staged


def staged() -> Staged:
    lengths = LengthStatistics(mean_tokens=1, median_tokens=1, p95_tokens=1, max_tokens=1, at_max_length_share=0)
    counts = {"train_rows": 1, "validation_rows": 1, "train_class_counts": (1,), "validation_class_counts": (1,)}
    return Staged(
        key="k", channels={}, label_names=("a",), bucket_lengths=(8,), lengths=lengths, source="s", digest="d",
        evaluation_key="e" * 32,
        cached=True, **counts,
    )  # fmt: skip
