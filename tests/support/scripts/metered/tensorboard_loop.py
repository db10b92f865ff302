"""Write the records of TensorBoard's SummaryWriter, as the format defines them, without the package."""

import os
import pathlib
import struct


def varint(number):
    text = bytearray()
    while number > 127:
        text.append(number & 127 | 128)
        number >>= 7
    return bytes([*text, number])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def record(step, tag, value):
    scalar = field(1, tag.encode()) + varint(2 << 3 | 5) + struct.pack("<f", value)
    event = (
        varint(1 << 3 | 1) + struct.pack("<d", 1e9 + step) + varint(2 << 3) + varint(step) + field(5, field(1, scalar))
    )
    return struct.pack("<Q", len(event)) + bytes(4) + event + bytes(4)


folder = pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"]) / "runs"
folder.mkdir()
records = [record(step, "eval/loss", 1.0 / (1 + step)) for step in (0, 1, 3)]
unfinished = record(4, "eval/loss", 5.0)[:-3]
(folder / "events.out.tfevents.1.host").write_bytes(b"".join([*records, unfinished]))
