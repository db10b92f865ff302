"""Collect cyclic garbage between requests, because a full collection stops the event loop."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

LOOK_SECONDS = 0.1
DUE = 50
"""Collections of the middle generation after which a full one is due. Python's default is 10, but what is left of a
request rarely has cycles, so that full collections have little to do."""
OVERDUE = 1000
"""Collections of the middle generation after which Python runs a full one even while requests are being answered, so
that clients who keep the server busy cannot fill its memory with garbage."""


def postpone_full_collections() -> None:
    """Exempt all present objects from collections, and leave further full collections to `collect_between_requests`.

    A full collection over the objects of PyTorch and the model would stop the loop for 0.2 s.
    """
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, OVERDUE)


async def collect_between_requests(is_answering: Callable[[], bool]) -> None:
    """Run a full collection, if one is due, at moments without a request that is being answered. Never returns."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if gc.get_count()[2] >= DUE and not is_answering():
            gc.collect()
