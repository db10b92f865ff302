"""Check a request's head and its body, which must be JSON: `{"inputs": ..., "parameters": {...}}`. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from models.server.errors import CLOSE, Header, Refused, shown

MAX_BODY_BYTES = 6 * 2**20
"""Largest body that SageMaker passes to an endpoint."""
MAX_INPUTS = 1024
"""Most inputs of one request. For more, predict a file."""
MAX_VALUES = 65_536
"""Most objects, lists and members of a body. A body of millions of empty lists would block all clients for seconds."""
_KNOWN = ("inputs", "parameters")
MAX_DIGITS = 400
"""Most digits of a whole number. Converting takes quadratic time; a longer number would overflow any parameter."""


def check_head(headers: Iterable[Header]) -> None:
    """Raise `Refused` unless the body is uncompressed JSON in UTF-8 and the client accepts JSON."""
    headers_by_name = {name: value.decode("latin-1").strip().lower() for name, value in headers}
    if b"content-type" not in headers_by_name:
        raise Refused(415, "Content-Type is missing: it must be application/json.")
    kind, _, options = headers_by_name[b"content-type"].partition(";")
    if kind.strip() != "application/json":
        raise Refused(415, f"Content-Type is '{shown(kind)}': it must be application/json.")
    charset = dict(option.strip().partition("=")[::2] for option in options.split(";")).get("charset", "utf-8")
    if charset.strip('"') not in {"utf-8", "utf8", "us-ascii"}:
        raise Refused(415, f"the charset is '{shown(charset)}': it must be utf-8.")
    if (encoding := headers_by_name.get(b"content-encoding", "identity")) != "identity":
        raise Refused(415, f"Content-Encoding is '{shown(encoding)}': the body must not be compressed.")
    accepted = {part.partition(";")[0].strip() for part in headers_by_name.get(b"accept", "*/*").split(",")}
    if not accepted & {"*/*", "application/*", "application/json", ""}:
        raise Refused(406, "Accept excludes application/json, but all answers are JSON.")


def declared_bytes(headers: Iterable[Header]) -> int | None:
    """Return the value of Content-Length; None if the body is sent in chunks.

    Raises `Refused` for both at once: a proxy and this server could see different ends of the body (RFC 9112, 6.3).
    """
    values = {name: value for name, value in headers if name in (b"content-length", b"transfer-encoding")}
    if len(values) > 1:
        raise Refused(400, "the request has Content-Length and Transfer-Encoding: send only one of them.", CLOSE)
    return int(values[b"content-length"]) if b"content-length" in values else None


def parse_body(body: bytes) -> tuple[Any, Mapping[str, Any]]:
    """Return the inputs and the parameters of a body. Raises `Refused` with one sentence."""
    document = _document(body)
    if not isinstance(document, dict):
        raise Refused(400, f'the body is {_kind(document)}: it must be an object such as {{"inputs": "a text"}}.')
    if unknown := [name for name in document if name not in _KNOWN]:
        raise Refused(400, f"unknown field '{shown(unknown[0])}': use inputs and, optionally, parameters.")
    if "inputs" not in document:
        raise Refused(400, "inputs is missing: give a text, an object or a list of these.")
    inputs, parameters = document["inputs"], document.get("parameters")
    if isinstance(inputs, list) and len(inputs) > MAX_INPUTS:
        raise Refused(400, f"inputs is a list of {len(inputs)}: a request may have at most {MAX_INPUTS} inputs.")
    if not isinstance(parameters, dict | None):
        raise Refused(400, f"parameters is {_kind(parameters)}: it must be an object.")
    return inputs, parameters or {}


def _check_size(body: bytes) -> None:
    """Raise `Refused` for a body with too many values. Counting takes milliseconds; parsing them would take seconds.

    No step holds Python's lock for more than about 20 ms, as a regular expression would do.
    """
    if _values(body) <= MAX_VALUES:
        return
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    # A member has at most two texts, so more quotes belong to too many values, or to a body that is not JSON.
    if unescaped.count(b'"') > 4 * (MAX_VALUES + 1) or sum(map(_values, unescaped.split(b'"')[::2])) > MAX_VALUES:
        raise Refused(400, f"the body has too many values: at most {MAX_VALUES} objects, lists and members.")


def _values(body: bytes) -> int:
    return body.count(b"[") + body.count(b"{") + body.count(b",")


def _document(body: bytes) -> Any:
    _check_size(body)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(400, f"the body is not UTF-8: byte {error.start} is 0x{body[error.start]:02x}.") from None
    try:
        document = json.loads(text, parse_constant=_no_number, parse_int=_whole_number)
        if "\\u" in text:
            # Half a surrogate pair is valid JSON, but not text.
            json.dumps(document, ensure_ascii=False).encode()
    except RecursionError:
        raise Refused(400, "the body is nested too deeply.") from None
    except UnicodeEncodeError:
        raise Refused(400, "a text contains half a surrogate pair, which is not a character.") from None
    except ValueError as error:
        raise Refused(400, f"the body is not JSON: {shown(str(error), 200)}.") from None
    return document


def _whole_number(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a whole number has {len(digits)} digits: at most {MAX_DIGITS}")
    return int(digits)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")
