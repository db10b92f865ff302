"""The connections that give way when too many are open."""

from __future__ import annotations

from dataclasses import dataclass, field

from models.server.room import (
    CLOSED_AT_ONCE,
    MAX_CONNECTIONS,
    MAX_UNFINISHED_BODIES,
    MAX_WAITING_PER_CLIENT,
    first_to_give_way,
    make_room_for_body,
    make_room_for_connection,
)


@dataclass(eq=False)
class Waiting:
    """A connection that waits, as far as the choice is concerned."""

    client_address: str
    waiting_seconds: float
    has_answered: bool = False
    state: str = "body"
    reasons: list[str] = field(default_factory=list)

    @property
    def staleness(self) -> tuple[bool, float]:
        return not self.has_answered, self.waiting_seconds

    def waits_for_client(self) -> bool:
        return self.state in ("idle", "body")

    def has_unfinished_body(self) -> bool:
        return self.state == "body"

    def give_way(self, reason: str) -> None:
        self.reasons.append(reason)


def test_the_client_with_the_most_connections_gives_way_first() -> None:
    other = Waiting("10.0.0.2", 900.0)
    many = [Waiting("10.0.0.1", seconds, seconds == 3.0) for seconds in (1.0, 2.0, 3.0)]
    assert [link.waiting_seconds for link in first_to_give_way([other, *many], 4)] == [2.0, 1.0, 3.0, 900.0]


def test_a_further_body_closes_the_unfinished_one_that_has_waited_longest() -> None:
    links = [Waiting("10.0.0.1", float(seconds)) for seconds in range(MAX_UNFINISHED_BODIES)]
    idle = Waiting("10.0.0.1", 1e6, state="idle")
    make_room_for_body(links[0], [*links, idle])
    assert not any(link.reasons for link in [*links, idle])
    new = Waiting("10.0.0.1", 0.0)
    make_room_for_body(new, [*links, idle, new])
    assert [link.waiting_seconds for link in [*links, idle, new] if link.reasons] == [MAX_UNFINISHED_BODIES - 1.0]


def test_a_further_connection_closes_a_few_that_wait() -> None:
    links = [Waiting(f"10.0.0.{number % 4}", float(number), state="idle") for number in range(MAX_CONNECTIONS)]
    busy = Waiting("10.0.0.1", 1e6, state="answered")
    assert make_room_for_connection(busy, [*links[1:], busy])
    assert not any(link.reasons for link in links)
    new = Waiting("10.0.0.9", 0.0, state="idle")
    links[0].client_address = "10.0.0.3"
    assert make_room_for_connection(new, [*links, busy, new])
    assert [link for link in [*links, busy, new] if link.reasons] == links[3::4][-CLOSED_AT_ONCE:]


def test_one_client_has_half_of_the_connections() -> None:
    links = [Waiting("10.0.0.1", float(number), state="idle") for number in range(MAX_WAITING_PER_CLIENT)]
    other = Waiting("10.0.0.2", 1e6, state="idle")
    assert make_room_for_connection(other, [*links, other])
    assert not any(link.reasons for link in links)
    new = Waiting("10.0.0.1", 0.0, state="idle")
    assert make_room_for_connection(new, [*links, other, new])
    assert [link for link in [*links, other, new] if link.reasons] == [links[-1]]
    assert links[-1].reasons == ["too many connections of this client are open"]


def test_there_is_no_room_if_all_connections_are_being_answered() -> None:
    links = [Waiting("10.0.0.1", 0.0, state="answered") for _ in range(MAX_CONNECTIONS)]
    new = Waiting("10.0.0.1", 0.0, state="idle")
    assert not make_room_for_connection(new, [*links, new])
