"""Read the rows of a data file, each by itself: the suffix determines the reader.

Tables (CSV, TSV) have their delimiter in the header. Parquet and Arrow are read by pyarrow. JSON is lines, an array of
objects, or the questions of SQuAD's documents. CoNLL has a word in each line, and its tag.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

from training.contract.errors import InputError, first_line, nearest, short_text
from training.job.tasks import SQUAD_COLUMNS
from training.staging.formats.files import (
    BYTE_ORDER_MARK,
    COMPRESSIONS,
    DEFAULT_FORMAT,
    MAX_COMPARED,
    MAX_LINE_CHARACTERS,
    MissingColumn,
    Row,
    TextFormat,
    dotted_names,
    first_invalid,
    missing_column,
    not_text,
    open_text,
    plain_suffix,
    text_lines,
    unpacked_file,
    value_at,
)

DELIMITERS = {",": "','", ";": "';'", "\t": "a tab", "|": "'|'"}
"""Delimiters that are looked for, and their names."""
USUAL = {".csv": ",", ".tsv": "\t"}
"""Delimiter that a suffix stands for."""
MAX_LINES, MAX_CHARACTERS = 20, 2**16
"""Text in which the header is looked for. In a longer one, the usual delimiter is assumed."""
CARRIAGE_RETURN = (
    "has a carriage return that ends no line: put its field in quotation marks, or, if carriage returns alone end the "
    "lines, replace them by newlines"
)
SEP = "sep="
"""Beginning of a line before the header with which Excel states the delimiter."""


def table_rows(path: Path, columns: Sequence[str], text: TextFormat) -> Iterator[Row]:
    """Yield the values of `columns` for every row, with the number of its last line."""
    csv.field_size_limit(MAX_LINE_CHARACTERS)
    first, lines = _first_lines(path, text)
    delimiter = _find_delimiter(first, columns, path, text)
    above = 1 if _stated_delimiter(first) is not None else 0
    for _ in range(above):
        next(lines)
    has_quotes = _quoting(path, delimiter) != csv.QUOTE_NONE
    reader: Any = csv.reader(lines, delimiter=delimiter, quoting=_quoting(path, delimiter), strict=True)  # type: ignore[arg-type]

    def rows() -> Iterator[list[str] | InputError]:
        while True:
            try:
                yield next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                problem = CARRIAGE_RETURN if "new-line" in str(error) else f"is malformed: {error}"
                yield InputError(f"{path} line {reader.line_num + above} {problem}")

    read = rows()
    header = text.header or next((row for row in read if row), [])
    if isinstance(header, InputError):
        raise header
    header = [name.strip() for name in header]
    place = f"{path} line {reader.line_num + above}" if text.header is None else f"{text.prefix}header"
    positions = _positions(place, columns, header, path, delimiter, text)
    for row in read:
        number = reader.line_num + above
        if isinstance(row, InputError):
            yield number, row
        elif row and len(row) != len(header):
            problem = f"{path} line {number} has {len(row)} fields, but the header has {len(header)}"
            if not has_quotes and any(field.startswith('"') for field in row):
                problem += "; quotation marks have a meaning in .csv, but not in .tsv: rename the file"
            yield number, InputError(problem)
        elif row:
            yield number, [row[position] for position in positions]


def _positions(
    place: str, columns: Sequence[str], header: Sequence[str], path: Path, delimiter: str, text: TextFormat
) -> list[int]:
    """Return the positions of the columns. Raises InputError if one is missing or occurs twice."""
    for column in columns:
        if header.count(column) > 1:
            raise InputError(f"{place} has the column {column!r} twice")
    missing = next((column for column in columns if column not in header), None)
    if missing is None:
        return [header.index(column) for column in columns]
    reading = ""
    if len(header) == 1 and not text.delimiter:
        reading = (
            f" None of {', '.join(DELIMITERS.values())} separates its fields: set {text.prefix}delimiter if another "
            "character does."
        )
    elif len(header) > 1 and not text.delimiter and not is_usual(path, delimiter):
        reading = f" Its fields were separated at {delimiter_name(delimiter)}."
    has_none = not text.header and text.prefix and len(header) > 1 and not set(columns) & set(header)
    no_header = f" If that is a row, name the columns of the file in {text.prefix}header." if has_none else ""
    raise MissingColumn(f"{missing_column(place, missing, header, no_header)}{reading}")


def table_delimiter(path: Path, columns: Sequence[str], text: TextFormat) -> str:
    """Return the delimiter of a table. Raises InputError for a file that cannot be read."""
    first, _ = _first_lines(path, text)
    return _find_delimiter(first, columns, path, text)


def delimiter_name(delimiter: str) -> str:
    return DELIMITERS.get(delimiter, repr(delimiter))


def is_table(path: Path) -> bool:
    """Return whether a file is a table with a delimiter, by its suffix."""
    return plain_suffix(path) in USUAL


def is_usual(path: Path, delimiter: str) -> bool:
    """Return whether the suffix of a table stands for this delimiter."""
    return USUAL[plain_suffix(path)] == delimiter


def _quoting(path: Path, delimiter: str) -> int:
    """Return the meaning of quotation marks: none in TSV as its media type and GLUE define it."""
    return csv.QUOTE_NONE if plain_suffix(path) == ".tsv" and delimiter == "\t" else csv.QUOTE_MINIMAL


def _first_lines(path: Path, text: TextFormat) -> tuple[list[str], Iterator[str]]:
    lines, first = (line for _, line in text_lines(path, text)), list[str]()
    while len(first) < MAX_LINES and sum(map(len, first)) <= MAX_CHARACTERS and (line := next(lines, None)) is not None:
        first.append(line)
    return first, chain(first, lines)


def _stated_delimiter(first: Sequence[str]) -> str | None:
    """Return the delimiter that Excel's line `sep=;` before the header states, or None without this line."""
    line = first[0].rstrip("\r\n") if first else ""
    is_stated = line[: len(SEP)].lower() == SEP and len(line) == len(SEP) + 1
    return line[-1] if is_stated and line[-1] not in '"\0' else None


def _find_delimiter(first: Sequence[str], columns: Sequence[str], path: Path, text: TextFormat) -> str:
    """Return the delimiter: as requested, as stated, or else the one by which the header has all `columns`.

    Without a header in the file, it is the one by which the first row has as many fields as `text.header`.

    At most one has, unless the header is a single column, because both sides of a name are delimiters or line ends.
    Without such a header, which is an error, it is the one that gives the header the most fields.
    """
    if (known := text.delimiter or _stated_delimiter(first)) is not None:
        return known
    usual = USUAL[plain_suffix(path)]
    if sum(map(len, first)) > MAX_CHARACTERS:
        return usual
    headers: dict[str, list[str]] = {}
    for delimiter in dict.fromkeys([usual, *DELIMITERS]):
        reader = csv.reader(first, delimiter=delimiter, quoting=_quoting(path, delimiter))  # type: ignore[arg-type]
        headers[delimiter] = []
        with suppress(csv.Error):
            headers[delimiter] = [name.strip() for name in next((row for row in reader if row), [])]
    matches = (
        delimiter
        for delimiter, header in headers.items()
        if (len(header) == len(text.header) if text.header else set(columns) <= set(header))
    )
    return next(matches, max(headers, key=lambda delimiter: len(headers[delimiter])))


BATCH_ROWS = 100
ARROW_FILE, OLD_FEATHER = b"ARROW1\0\0", b"FEA1"


def columnar_rows(path: Path, columns: Sequence[str], text: TextFormat) -> Iterator[Row]:
    """Yield the values of `columns` for every row of a Parquet file, or an Arrow file or stream, in order.

    Raises InputError for a damaged file.
    """
    read, kind = (_parquet, "Parquet") if plain_suffix(path) == ".parquet" else (_arrow, "Arrow")
    with unpacked_file(path) as plain:
        try:
            yield from enumerate(read(plain, path, columns), start=1)
        except InputError:
            raise
        except Exception as error:  # A damaged file raises about ten classes, from its schema or amid a batch.
            raise InputError(f"{path} is not a valid {kind} file: {first_line(error, 200)}") from error


def _parquet(plain: Path, path: Path, columns: Sequence[str]) -> Iterator[list[Any]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(plain, memory_map=True, page_checksum_verification=True) as file:
        _check_columns(path, columns, file.schema_arrow)
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=list(columns), use_threads=False):
            yield from _rows(batch, columns)


def _arrow(plain: Path, path: Path, columns: Sequence[str]) -> Iterator[list[Any]]:
    import pyarrow as pa

    content = _arrow_stream(plain, path)
    schema = pa.ipc.open_stream(content).schema
    _check_columns(path, columns, schema)
    fields = sorted({schema.names.index(_top(column, schema.names)) for column in columns})
    for batch in pa.ipc.open_stream(content, options=pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)):
        batch.validate(full=True)  # Offsets that point outside the file would give the content of other memory.
        for at in range(0, batch.num_rows, BATCH_ROWS):
            yield from _rows(batch.slice(at, BATCH_ROWS), columns)


def _arrow_stream(plain: Path, path: Path) -> Any:
    """Return the stream of an Arrow file, which has it within, or is one."""
    import pyarrow as pa

    source = pa.memory_map(str(plain)).read_buffer()
    start = source[: len(ARROW_FILE)].to_pybytes()
    if start.startswith(OLD_FEATHER):
        raise InputError(f"{path} is Feather of version 1; write it again with pandas' to_feather")
    return source[len(ARROW_FILE) :] if start == ARROW_FILE else source


def _top(column: str, names: Sequence[str]) -> str:
    """Return the column of a file that has a column or a dotted path."""
    return column if column in names else column.partition(".")[0]


def _rows(batch: Any, columns: Sequence[str]) -> Iterator[list[Any]]:
    values = (_column(batch, column) for column in columns)
    return map(list, zip(*values, strict=True))


def _column(batch: Any, column: str) -> list[Any]:
    top = _top(column, batch.schema.names)
    values: list[Any] = batch.column(top).to_pylist()
    return values if top == column else [value_at({top: value}, column) for value in values]


def _check_columns(path: Path, columns: Sequence[str], schema: Any) -> None:
    known = _paths(schema)
    for column in columns:
        if schema.names.count(column) != 1 and known.count(column) != 1:
            raise missing_column(str(path), column, known)


def _paths(fields: Any) -> list[str]:
    """Return the names of columns, with dotted paths to those in objects."""
    import pyarrow as pa

    inner = [(field.name, _paths(field.type) if pa.types.is_struct(field.type) else []) for field in fields]
    return [path for name, paths in inner for path in [f"{name}.{each}" for each in paths] or [name]]


def file_features(path: Path) -> Any:
    """Return the types of columns, by dotted name, that `datasets` stored in a file; empty without them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if reader_name(path) not in BINARY:
        return {}
    with suppress(Exception), unpacked_file(path) as plain:  # reading the rows reports it
        is_parquet = plain_suffix(path) == ".parquet"
        schema = pq.read_schema(plain) if is_parquet else pa.ipc.open_stream(_arrow_stream(plain, path)).schema
        if b"huggingface" in (schema.metadata or {}):
            from datasets import Features

            return Features.from_arrow_schema(schema).flatten()
    return {}


TYPE_NAMES: dict[type, str] = {str: "text", int: "a whole number", list: "a list", dict: "an object"}
START_CHARACTERS = 4_096
AS_ROWS = "write it as rows, such as with pandas' to_json(path, orient='records', lines=True)"


def json_rows(path: Path, columns: Sequence[str], text: TextFormat) -> Iterator[Row]:
    """Yield the rows of a file with the suffix .json: a JSON array of objects, or JSON Lines."""
    if _is_document(path, columns, text):
        return array_rows(path, columns, text)
    return line_rows(path, columns, text)


def is_json_array(path: Path, text: TextFormat) -> bool:
    """Return whether a file contains a JSON array, by its first character. Raises InputError for one without text."""
    with open_text(path, text) as stream:
        start = stream.read(START_CHARACTERS)
    return start.removeprefix(BYTE_ORDER_MARK).lstrip().startswith("[")


def array_rows(path: Path, columns: Sequence[str], text: TextFormat) -> Iterator[Row]:
    """Yield the values of `columns` for every object of a JSON array."""
    rows = _document(path, text)
    if isinstance(rows, dict):
        lists = [each for each in rows.values() if _is_list_of_objects(each)]
        if len(lists) != 1:
            raise InputError(
                f"{path} is one object; the file must be one array of objects, one object in each line, or an object "
                f"with a single list of objects, not {len(lists)}"
            )
        rows = lists[0]
    for number, row in enumerate(rows, start=1):
        yield number, _values(f"{path} row {number}", row, columns)


def _is_document(path: Path, columns: Sequence[str], text: TextFormat) -> bool:
    """Return whether a JSON file is an array, or an object with its rows in a list, and not one object a line."""
    if is_json_array(path, text):
        return True
    with open_text(path, text) as stream:
        lines = list(islice(filter(str.strip, iter(stream.readline, "")), 2))
    try:
        row = json.loads("".join(lines[:1]).removeprefix(BYTE_ORDER_MARK))
    except (ValueError, RecursionError):
        return len(lines) > 1 and lines[0].strip().endswith(("{", "[", ","))  # an object in several lines
    is_wrapper = isinstance(row, dict) and columns[0] not in row and any(map(_is_list_of_objects, row.values()))
    return is_wrapper and len(lines) == 1


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _document(path: Path, text: TextFormat) -> Any:
    """Return the content of a JSON file, which is read as a whole."""
    with open_text(path, text) as stream:
        content = stream.read().removeprefix(BYTE_ORDER_MARK)
    if (at := first_invalid(content)) is not None:
        line, column = content.count("\n", 0, at) + 1, at - content.rfind("\n", 0, at)
        raise not_text(path, line, column, content, at, text)
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        hint = "; a file of JSON Lines needs the suffix .jsonl" if error.msg == "Extra data" else ""
        place = f"line {error.lineno} column {error.colno}"
        raise InputError(f"{path} is not JSON: {error.msg} at {place}{hint}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from error


def line_rows(path: Path, columns: Sequence[str], text: TextFormat) -> Iterator[Row]:
    """Yield the values of `columns` for every line that is not blank."""
    for number, line in text_lines(path, text):
        if not line.strip():
            continue
        location, suffix = f"{path} line {number}", plain_suffix(path)
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
            yield number, InputError(f"{location} is not JSON: {reason}{_advice(line, suffix)}")
            continue
        if isinstance(row, list):
            raise InputError(f"{location} must be a JSON object, not list{_advice(line, suffix)}")
        if (
            number == 1
            and isinstance(row, dict)
            and len(row) > 1
            and all(isinstance(each, dict) and "0" in each for each in row.values())
        ):
            raise InputError(f"{location} contains a whole table by columns; {AS_ROWS}")
        yield number, _values(location, row, columns)


def _advice(line: str, suffix: str) -> str:
    """Return the way on for a document that is spread over lines, or an array; empty for other text."""
    start = line.strip()
    if start.startswith("[") and suffix != ".json":
        return "; a file that is one JSON array needs the suffix .json"
    return "; each line must be one object, or the file one array of objects" if start == "{" else ""


def _values(location: str, row: Any, columns: Sequence[str]) -> list[Any] | InputError:
    """Return the values of an object, or why it has none."""
    if not isinstance(row, Mapping):
        return InputError(f"{location} must be a JSON object, not {type(row).__name__}")
    try:
        return [value_at(row, column) for column in columns]
    except KeyError as error:
        return missing_column(location, error.args[0], dotted_names(row))


def squad_rows(path: Path, text: TextFormat) -> Iterator[Row]:
    """Yield (number from 1, [id, context, question, answers]) for every question of SQuAD's JSON, in the file's order.

    Its form is `data[].paragraphs[].qas[].answers[]`: see https://rajpurkar.github.io/SQuAD-explorer/. Unanswerable
    questions of version 2 have an empty list of answers.

    A JSON array has one question in each element instead, with the columns of the Hub's `squad`.
    """
    if is_json_array(path, text):
        yield from array_rows(path, SQUAD_COLUMNS, text)
        return
    number = 0
    for article in _items((f"{path}: document", _document(path, text)), "data"):
        for paragraph in _items(article, "paragraphs"):
            context = _field(paragraph, "context", str)
            for entry in _items(paragraph, "qas"):
                number += 1
                yield number, _question(entry, context)


def _question(entry: _Placed, context: str) -> list[Any] | InputError:
    try:
        answers = list(_items(entry, "answers"))
        listed = {
            "text": [_field(answer, "text", str) for answer in answers],
            "answer_start": [_field(answer, "answer_start", int) for answer in answers],
        }
        return [_field(entry, "id", str), context, _field(entry, "question", str), listed]
    except InputError as error:
        return error


_Placed = tuple[str, Any]
"""File and path of a value, such as `a.json: document.data[3].paragraphs[0]`, and the value."""


def _field(owner: _Placed, name: str, kind: type) -> Any:
    """Return a field of an object. Raises InputError if it is missing or has another type."""
    place, fields = owner
    _check_type(place, fields, dict)
    if name not in fields:
        listed = ", ".join(repr(str(key)[:60]) for key in list(fields)[:20]) or "none"
        raise InputError(f"{place} has no {name!r}; it has {listed}.{nearest(name, list(fields)[:MAX_COMPARED])}")
    _check_type(f"{place}.{name}", fields[name], kind)
    return fields[name]


def _items(owner: _Placed, name: str) -> Iterator[_Placed]:
    return ((f"{owner[0]}.{name}[{at}]", value) for at, value in enumerate(_field(owner, name, list)))


def _check_type(place: str, value: Any, kind: type) -> None:
    if not isinstance(value, (str, int) if kind is str else kind) or isinstance(value, bool):
        raise InputError(f"{place} must be {TYPE_NAMES[kind]}, not {short_text(value)}")


ADVICE = {
    **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".xlsb", ".ods"), "save the sheet as CSV"),
    **dict.fromkeys((".pkl", ".pickle"), "a pickle can run any code, so convert it with pandas' to_parquet"),
    ".orc": "convert it with pandas' to_parquet",
    **dict.fromkeys((".zip", ".tar", ".tgz", ".7z", ".rar"), "unpack it"),
    **dict.fromkeys((".xz", ".lz4", ".br", ".sz"), f"decompress it, or use {', '.join(COMPRESSIONS)}"),
    **dict.fromkeys((".db", ".sqlite", ".sqlite3"), "export the table as CSV"),
}
"""Advice for files that are not read, by suffix."""


def read_rows(path: Path, columns: Sequence[str], text: TextFormat = DEFAULT_FORMAT) -> Iterator[Row]:
    """Yield the values of `columns` for every row, in order. The file's suffix determines the reader."""
    if _is_squad(path, columns):
        return squad_rows(path, text)
    return READERS[reader_name(path)](path, columns, text)


def _is_squad(path: Path, columns: Sequence[str]) -> bool:
    return reader_name(path) == ".json" and tuple(columns) == SQUAD_COLUMNS


def reader_name(path: Path) -> str:
    """Return the suffix that determines the reader, without the suffix of a compression."""
    suffix = plain_suffix(path)
    if suffix in ADVICE:
        raise InputError(f"{path} cannot be read: {ADVICE[suffix]}")
    if suffix not in READERS:
        known, packed = ", ".join(READERS), " or ".join(COMPRESSIONS)
        raise InputError(f"{path} has the unknown suffix {suffix!r}; use {known}, optionally followed by {packed}")
    return suffix


def unit_of(path: Path, columns: Sequence[str], text: TextFormat = DEFAULT_FORMAT) -> str:
    """Return the unit of the row numbers of this file: `line`, `row` or `question`. A file .json is opened for it."""
    name = reader_name(path)
    if _is_squad(path, columns):
        return "question"
    is_array = name == ".json" and _is_document(path, columns, text)
    return "row" if name in BINARY or is_array else "line"


def _plain_text(path: Path, columns: Sequence[str], text: TextFormat) -> Iterator[Row]:
    """Yield each line that is not blank. The line end is kept to separate the lines when texts are joined."""
    if len(columns) != 1:
        listed = " and ".join(repr(column) for column in columns)
        raise InputError(
            f"{path} is plain text, which has one text per line; the columns {listed} need JSON Lines, CSV or TSV. "
            "Name a table .csv or .tsv, and a CoNLL file .conll"
        )
    for number, line in text_lines(path, text):
        if line.strip():
            yield number, [line.rstrip("\r\n") + "\n"]


SKIPPED = ("-DOCSTART-", "# id ")
"""Beginnings of lines between the sentences of a CoNLL file: of CoNLL 2003, and of MultiCoNER."""


def conll_rows(path: Path, columns: Sequence[str], text: TextFormat) -> Iterator[Row]:
    """Yield the words and the tags of each sentence of a CoNLL file, with the number of its first line.

    A line has a word, in the first column, and its tag, in the last. Tabs separate the columns, or blanks if a line has
    no tab. A line without either ends a sentence: empty, or with blanks and tabs alone. `columns` are the names of the
    words and, if requested, of the tags, which the file does not have.
    """
    if len(columns) > 2:
        listed = ", ".join(map(repr, columns[2:]))
        raise MissingColumn(f"{path} is a CoNLL file, which has words and tags alone; it has no column {listed}")
    first, sentence = 0, list[list[str]]()
    for number, line in text_lines(path, text):
        fields = _conll_fields(line)
        if not fields and sentence:
            yield first, _conll_values(sentence, columns)
            sentence = []
        if not fields or (not sentence and line.startswith(SKIPPED)):
            continue
        if len(fields) < len(columns):
            problem = f"{path} line {number} has only {short_text(line.strip())}, but a line needs a word and a tag"
            raise InputError(f"{problem}, separated by a tab or a blank")
        first = first if sentence else number
        sentence.append(fields)
    if sentence:
        yield first, _conll_values(sentence, columns)


def _conll_fields(line: str) -> list[str]:
    line = line.rstrip()
    return (line.split("\t") if "\t" in line else line.split()) if line else []


def _conll_values(sentence: Sequence[Sequence[str]], columns: Sequence[str]) -> list[Any]:
    return [[fields[0] for fields in sentence], [fields[-1] for fields in sentence]][: len(columns)]


READERS: dict[str, Callable[[Path, Sequence[str], TextFormat], Iterator[Row]]] = {
    ".jsonl": line_rows,
    ".ndjson": line_rows,
    ".json": json_rows,
    ".csv": table_rows,
    ".tsv": table_rows,
    ".parquet": columnar_rows,
    ".arrow": columnar_rows,
    ".feather": columnar_rows,
    ".ipc": columnar_rows,
    ".txt": _plain_text,
    ".conll": conll_rows,
}
BINARY = frozenset({".parquet", ".arrow", ".feather", ".ipc"})
"""Formats that are not text."""
