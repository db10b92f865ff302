"""Smallest result of a staging."""

from __future__ import annotations

from training.staging.tokens.staged import ChannelDescription, DataDescription, LengthStatistics, Staged


def staged() -> Staged:
    lengths = LengthStatistics(mean_tokens=1, median_tokens=1, p95_tokens=1, max_tokens=1, at_max_length_share=0)
    channel = ChannelDescription(rows=1, lengths=lengths, class_counts=(1,))
    data = DataDescription(task=None, max_length=None, label_names=("a",), train=channel, validation=channel)
    return Staged(
        key="k", channels={}, bucket_lengths=(8,), source="s", digest="d", evaluation_key="e" * 32, description=data,
        cached=True,
    )  # fmt: skip
