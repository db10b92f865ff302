"""Content of both channels, ready to be tokenised and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from training.staging.rows.selection import Channel
from training.staging.tokens.channel_files import ChannelWriter
from training.staging.tokens.channel_summary import ChannelSummary


@dataclass(frozen=True, kw_only=True)
class Content:
    """Checked rows of both channels of one staging."""

    source: str
    """File or Hub split of the training rows, for messages."""
    write: Callable[[Channel, Any, ChannelWriter, ChannelSummary], Mapping[str, Any]]
    """Tokenise the rows of a channel with a tokenizer, write and summarise them. It returns the channel's metadata for
    the job, in addition to that of every task. Raises InputError."""
    label_names: tuple[str, ...] = ()
    """Names in the order of the class numbers; empty if the task has no classes."""
