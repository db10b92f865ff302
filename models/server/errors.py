"""Error responses of the server."""

from __future__ import annotations

import json
from collections.abc import Sequence

Header = tuple[bytes, bytes]

CLOSE: Header = (b"connection", b"close")
JSON: Header = (b"content-type", b"application/json")


class Refused(Exception):
    """A refused request: HTTP status, and one sentence with the reason."""

    def __init__(self, status: int, sentence: str, *headers: Header) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers: Sequence[Header] = headers

    def body(self) -> bytes:
        """Return the body of the response, in the format of SageMaker's inference toolkit."""
        return json.dumps({"code": self.status, "message": str(self)}).encode()


def busy(sentence: str, *headers: Header) -> Refused:
    """Return a refusal with status 503 that asks the client to retry after a second."""
    return Refused(503, sentence, (b"retry-after", b"1"), *headers)


def shown(text: str, most: int = 60) -> str:
    """Return the beginning of a client's text, on one line, for a message."""
    cut = text if len(text) <= most else text[:most] + "…"
    return cut.encode("unicode_escape").decode("ascii") if not cut.isprintable() else cut
