"""Keras' progress lines, by the definition of its `Progbar` in versions 2 and 3."""

from __future__ import annotations

import pytest

from tracking.recording.script_formats.keras import Keras

BOLD, END = "\x1b[1m", "\x1b[0m"


@pytest.mark.parametrize(
    "lines",
    [
        (
            "  1/938 [..............................] - ETA: 3:21 - loss: 2.4 - accuracy: 0.09",
            "469/938 [==============>...............] - ETA: 1s - loss: 0.4 - accuracy: 0.89",
            "938/938 [==============================] - 3s 3ms/step - loss: 0.3 - accuracy: 0.9 - val_loss: 0.2",
        ),
        (
            f"{BOLD}  1/938{END} \x1b[37m━━━━{END} {BOLD}3:21{END} 214ms/step - accuracy: 0.09 - loss: 2.4",
            f"{BOLD}469/938{END} \x1b[32m━━{END}\x1b[37m━━{END} {BOLD}1s{END} 2ms/step - accuracy: 0.89 - loss: 0.4",
            f"{BOLD}938/938{END} \x1b[32m━━━━{END} {BOLD}3s{END} 3ms/step - accuracy: 0.9 - loss: 0.3 - val_loss: 0.2",
        ),
    ],
    ids=["version 2", "version 3"],
)
def test_both_versions_are_read(lines: tuple[str, ...]) -> None:
    format = Keras()
    assert format.read(lines[0]) is None  # no epoch has begun
    for epoch in (1, 2):
        assert format.read(f"Epoch {epoch}/2") is None
        readings = [format.read(line) for line in lines]
        assert [each and each.step for each in readings] == [938 * (epoch - 1) + batch for batch in (1, 469, 938)]
        assert [each and each.is_evaluation for each in readings] == [False, False, True]
        assert readings[1]
        assert readings[1].values == {"loss": 0.4, "accuracy": 0.89}
        assert readings[2]
        assert readings[2].values == {"loss": 0.3, "accuracy": 0.9, "eval_loss": 0.2}


def test_one_line_per_epoch_is_read() -> None:
    format = Keras()
    format.read("Epoch 1/1")
    reading = format.read("40/40 - 3s - 75ms/step - accuracy: 0.93 - loss: 0.23 - val_accuracy: 0.9")
    assert reading
    assert (reading.step, reading.values["eval_accuracy"]) == (40, 0.9)


def test_lines_of_evaluate_belong_to_no_step() -> None:
    format = Keras()
    format.read("Epoch 1/1")
    format.read("40/40 - 3s - loss: 0.2")
    first = format.read(" 1/10 [==>...........................] - ETA: 1s - loss: 0.9")
    last = format.read("10/10 [==============================] - 1s 9ms/step - loss: 0.5")
    assert first
    assert last
    assert (first.step, first.values) == (None, {})
    assert (last.step, last.values) == (None, {"eval_loss": 0.5})


def test_values_come_once_per_percent() -> None:
    format = Keras()
    format.read("Epoch 1/1")
    readings = [format.read(f"{batch}/1000 [=>....] - ETA: 1s - loss: 0.5") for batch in range(1, 1001)]
    assert sum(bool(each and each.values) for each in readings) == 101
