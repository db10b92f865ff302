"""Tables of arms in a narrow terminal."""

from __future__ import annotations

import io

from reports.formats.terminal import print_blocks
from reports.model.report import Cell, Column, Row, Table


def printed(label: str, width: int) -> list[str]:
    """Return the lines of a table of two arms, without the line below the headings."""
    rows = tuple(Row((Cell(text=text), Cell(text="32"))) for text in ("none", label))
    table = Table(name="arms", headings=(Column("arm", str), Column("batch size", str, head="batch\nsize")), rows=rows)
    out = io.StringIO()
    print_blocks([table], out, width)
    return [line.strip() for line in out.getvalue().splitlines() if line.strip(" ─")]


def test_arms_have_numbers_where_the_table_has_no_room_for_labels() -> None:
    label = "inductor, weight decay 0.05, attention sdpa"
    head = ["batch", "arm  size"]
    assert printed(label, 30) == [
        *head,
        "1      32",
        "2      32",
        "1: none",
        "2: inductor, weight decay",
        "0.05, attention sdpa",
    ]
    assert printed("inductor", 30) == ["batch", "arm       size", "none        32", "inductor    32"]
