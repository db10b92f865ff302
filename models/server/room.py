"""Choose the connections that give way when too many are open. Pure, except that it closes them."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar

MAX_CONNECTIONS = 512
"""Most open connections. For a further one, connections that wait for their clients are closed."""
MAX_WAITING_PER_CLIENT = 256
"""Most connections of one client address that wait for the client: half of all, so that others find room."""
MAX_UNFINISHED_BODIES = 128
"""Most requests whose body is still arriving. When they end together, each takes a step of the event loop, and they
slow down the collection of garbage."""
CLOSED_AT_ONCE = 8
"""Most connections that are closed for a further one. Choosing them takes half a millisecond."""


class Link(Protocol):
    """A connection."""

    @property
    def client_address(self) -> str:
        """Address of the client, without its port."""

    @property
    def staleness(self) -> tuple[bool, float]:
        """Order in which connections of one client give way: the largest first."""

    def waits_for_client(self) -> bool:
        """Return whether the connection is idle, or has received only a part of a request."""

    def has_unfinished_body(self) -> bool:
        """Return whether a request's body is still arriving."""

    def give_way(self, reason: str) -> None:
        """Close the connection in favour of another."""


AnyLink = TypeVar("AnyLink", bound=Link)


def make_room_for_connection(new: AnyLink, links: Collection[AnyLink]) -> bool:
    """Close some connections that wait for their client, if too many are open in all or of the new one's client.

    Return False if there are too many in all, and all others are being answered.
    """
    if len(links) <= MAX_WAITING_PER_CLIENT:
        return True
    waiting = [each for each in links if each is not new and each.waits_for_client()]
    if len(links) <= MAX_CONNECTIONS:
        own = [each for each in waiting if each.client_address == new.client_address]
        for chosen in first_to_give_way(own, min(CLOSED_AT_ONCE, len(own) + 1 - MAX_WAITING_PER_CLIENT)):
            chosen.give_way("too many connections of this client are open")
        return True
    for chosen in first_to_give_way(waiting, CLOSED_AT_ONCE):
        chosen.give_way("too many connections are open")
    return bool(waiting)


def make_room_for_body(new: AnyLink, links: Collection[AnyLink]) -> None:
    """Close connections whose request's body is unfinished, if there are too many."""
    unfinished = [each for each in links if each is not new and each.has_unfinished_body()]
    for chosen in first_to_give_way(unfinished, len(unfinished) + 1 - MAX_UNFINISHED_BODIES):
        chosen.give_way("too many requests are unfinished")


def first_to_give_way(links: Collection[AnyLink], count: int) -> Sequence[AnyLink]:
    """Return the connections that give way first: those of the client with the most of `links`, by their staleness."""
    clients = Counter(each.client_address for each in links)
    order = [(clients[each.client_address], *each.staleness, id(each), each) for each in links]
    return [chosen for *_, chosen in heapq.nlargest(count, order)]
