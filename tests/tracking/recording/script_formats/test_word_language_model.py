"""Lines of word_language_model, as its main.py printed them."""

from __future__ import annotations

from tracking.recording.script_formats.word_language_model import WordLanguageModel


def test_batches_and_epochs_are_read() -> None:
    format = WordLanguageModel()
    batch = format.read("| epoch   2 |     5/   33 batches | lr 20.00 | ms/batch 14.44 | loss  4.03 | ppl    56.23")
    epoch = format.read("| end of epoch   2 | time:  0.47s | valid loss  2.89 | valid ppl    18.01")
    test = format.read("| End of training | test loss  2.95 | test ppl    19.09")
    assert batch is not None
    assert epoch is not None
    assert test is not None
    assert (batch.step, batch.done) == (38, 39)  # batches count from 0
    assert batch.values == {"learning_rate": 20.0, "loss": 4.03, "perplexity": 56.23}
    assert (epoch.step, epoch.is_evaluation) == (66, True)
    assert epoch.values == {"eval_loss": 2.89, "eval_perplexity": 18.01}
    assert test.values == {"test_loss": 2.95, "test_perplexity": 19.09}


def test_the_epochs_of_a_dry_run_have_no_step() -> None:
    reading = WordLanguageModel().read("| end of epoch   1 | time:  0.06s | valid loss  3.25 | valid ppl    25.73")
    assert reading is not None
    assert reading.step is None


def test_a_line_of_the_last_short_batch_corrects_the_announced_number() -> None:
    format = WordLanguageModel()
    lines = (
        "| epoch   1 |    65/   65 batches | lr 20.00 | ms/batch 14.44 | loss  4.03 | ppl    56.23",
        "| end of epoch   1 | time:  0.47s | valid loss  2.89 | valid ppl    18.01",
        "| epoch   2 |     5/   65 batches | lr 20.00 | ms/batch 14.44 | loss  4.03 | ppl    56.23",
    )
    readings = [format.read(line) for line in lines]
    assert [reading and (reading.step, reading.done) for reading in readings] == [(65, 66), (66, 66), (71, 72)]
