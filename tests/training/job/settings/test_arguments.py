from __future__ import annotations

import pytest

from reporting.errors import ArgumentError
from settings.arguments import Arguments, parse


def test_defaults() -> None:
    assert parse([]) == Arguments()


def test_values_are_converted() -> None:
    words = (
        "--learning_rate 1e-4 --epochs 3 --bucket_lengths 16,32 --save_model False --max_steps -1 --model_revision v2"
    )
    arguments = parse([*words.split(), "--model", "a folder/with é"])
    assert (arguments.learning_rate, arguments.epochs, arguments.bucket_lengths) == (1e-4, 3.0, (16, 32))
    assert (arguments.save_model, arguments.max_steps, arguments.model_revision) == (False, -1, "v2")
    assert arguments.model == "a folder/with é"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--lerning_rate", "1"], "unknown argument '--lerning_rate'. Did you mean '--learning_rate'?"),
        (["epochs", "1"], "unknown argument 'epochs'"),
        (["--epochs"], "argument epochs has no value"),
        (["--epochs", "two"], "epochs is 'two': it must be a finite number"),
        (["--epochs", "nan"], "epochs is 'nan': it must be a finite number"),
        (["--epochs", "0"], "epochs is '0': it must be above 0"),
        (["--seed", "1.5"], "seed is '1.5': it must be a whole number"),
        (["--save_model", "yes"], "save_model is 'yes': it must be True or False"),
        (["--compiler", "xla"], "compiler is 'xla': it must be one of none, inductor, trcomp, trcomp-off"),
        (["--adam_beta1", "1"], "adam_beta1 is '1': it must be at least 0 and below 1"),
        (["--max_steps", "0"], "max_steps is '0': it must be at least 1, or -1 for all epochs"),
        (["--bucket_lengths", "32,16"], "bucket_lengths is '32,16': it must be ascending whole numbers"),
        (["--padding", "buckets"], "bucket_lengths is not given: padding buckets needs it"),
        (["--eval_strategy", "steps"], "eval_steps is not given: eval_strategy steps needs it"),
        (["--save_strategy", "steps"], "save_steps is not given: save_strategy steps needs it"),
        (
            ["--best_metric", "eval_loss", "--eval_strategy", "epoch"],
            "best_metric is 'eval_loss': every evaluation needs",
        ),
        (["--target_metric", "loss"], "target_metric and target_value must be given together"),
        (["--target_stop", "True"], "target_stop is True, and there is no target_metric to stop at"),
    ],
)
def test_errors_name_the_argument_and_the_rule(words: list[str], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse(words)
    assert str(caught.value).startswith(message)
