"""What a request is answered with where it is not answered with a prediction."""

from __future__ import annotations

import json
from collections.abc import Sequence

Header = tuple[bytes, bytes]

CLOSE: Header = (b"connection", b"close")
JSON: Header = (b"content-type", b"application/json")


class Refused(Exception):
    """A status and one sentence that says what is wrong with the request."""

    def __init__(self, status: int, sentence: str, *headers: Header) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers: Sequence[Header] = headers

    def body(self) -> bytes:
        """Return the sentence as SageMaker's inference toolkit wraps it."""
        return json.dumps({"code": self.status, "message": str(self)}).encode()


def busy(sentence: str) -> Refused:
    """Return the refusal of what may be asked again in a second."""
    return Refused(503, sentence, (b"retry-after", b"1"))


def shown(text: str, most: int = 60) -> str:
    """Return what a sentence shows of a text that somebody sent: its beginning, on one line."""
    cut = text if len(text) <= most else text[:most] + "…"
    return cut.encode("unicode_escape").decode("ascii") if not cut.isprintable() else cut
