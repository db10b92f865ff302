"""A JSON document is read piece by piece as `json` reads it as a whole."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from training.contract.errors import InputError
from training.staging.formats import json_stream as module
from training.staging.formats.expansion import MIN_LIMIT_BYTES, Expansion
from training.staging.formats.json_stream import json_stream

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def read(path: Path) -> Any:
    """Read a document whose field `data` is a list, element by element."""
    document: dict[str, Any] = {}
    with json_stream(path, Expansion(path)) as stream:
        for name in stream.fields():
            document[name] = list(stream.elements()) if name == "data" else stream.value()
        stream.end()
    return document


@given(
    st.dictionaries(st.text().filter(lambda name: name != "data"), VALUES, max_size=4),
    st.lists(VALUES, max_size=6),
    st.booleans(),
    st.integers(1, 9),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pieces_are_read_like_the_whole(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fields: dict[str, Any],
    data: list[Any],
    ascii_only: bool,
    size: int,
) -> None:
    monkeypatch.setattr(module, "CHUNK_CHARACTERS", size)
    path = tmp_path / "a.json"
    document = {**fields, "data": data}
    path.write_text(json.dumps(document, ensure_ascii=ascii_only, indent=1), "utf-8", "surrogatepass")
    assert read(path) == json.loads(path.read_text("utf-8"))


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    "text",
    ['{"data": [1, 2', '{"data": [1,\n\n  tru]}', '{"data": [1 2]}', '{"data": ["a\n"]}', '{"a": 1}\n x', '{"a": -}'],
)
def test_errors_have_the_position_in_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, text: str
) -> None:
    monkeypatch.setattr(module, "CHUNK_CHARACTERS", size)
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(json.JSONDecodeError) as whole:
        json.loads(text)
    with pytest.raises(InputError) as pieces:
        read(path)
    position = f"{whole.value.msg} at line {whole.value.lineno} column {whole.value.colno}"
    assert str(pieces.value).startswith(f"{path} is not JSON: {position}")


def test_a_compressed_document_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b'{"a": [' + b" " * (MIN_LIMIT_BYTES + 1) + b"]}"))
    with pytest.raises(InputError, match="but contains more than"):
        read(path)
