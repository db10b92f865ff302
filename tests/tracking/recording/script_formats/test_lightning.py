"""PyTorch Lightning's bar, by the definition of its `TQDMProgressBar`."""

from __future__ import annotations

from tracking.recording.script_formats.lightning import Lightning
from tracking.recording.script_formats.reading import Reading


def epoch(number: int, n: int, values: str) -> str:
    return f"Epoch {number}: {100 * n // 500:3d}%|█▏        | {n}/500 [00:05<00:40, 10.90it/s, v_num=0, {values}]"


def read(lines: list[str]) -> list[Reading | None]:
    format = Lightning()
    return [format.read(line) for line in lines]


def test_steps_and_values_are_read() -> None:
    readings = read([epoch(0, 60, "train_loss=0.693"), epoch(0, 61, "train_loss=0.692"), epoch(1, 5, "train_loss=0.5")])
    assert [each and each.step for each in readings] == [60, 61, 505]
    assert [each and dict(each.values) for each in readings] == [{"loss": 0.693}, {}, {"loss": 0.5}]
    assert [each and each.bar for each in readings] == [1, 1, 2]


def test_an_evaluation_is_read_when_its_values_change() -> None:
    validation = "Validation DataLoader 0:  50%|#####     | 5/10 [00:00<00:00, 90.1it/s]"
    readings = read(
        [epoch(0, 499, "train_loss=0.6"), validation, epoch(0, 500, "val_loss=0.7"), epoch(1, 1, "val_loss=0.7")]
    )
    assert [each and each.is_evaluation for each in readings] == [False, True, True, False]
    assert readings[1]
    assert readings[1].step is None
    assert readings[2]
    assert readings[2].values == {"eval_loss": 0.7}
    assert readings[3]
    assert readings[3].values == {}


def test_bars_of_others_are_not_lightnings() -> None:
    assert read(["Epoch 1:  12%|#2        | 60/500 [00:05<00:40, 10.90it/s, loss=0.69]"]) == [None]


def test_old_versions_that_count_evaluation_batches_give_no_step() -> None:
    validating = "Validating:  10%|#         | 1/10 [00:00<00:00, 90.1it/s]"
    readings = read([epoch(0, 60, "loss=0.6"), validating, epoch(0, 61, "loss=0.6")])
    assert [each and each.step for each in readings] == [60, None, None]
