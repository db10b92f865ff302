"""AWS's tested batch sizes, against rows that were looked up by hand."""

from __future__ import annotations

import pytest

from sweeps import search_space as tested_models


@pytest.mark.parametrize(
    ("model", "machine", "compiler", "length", "largest"),
    [
        ("gpt2", "ml.g5.4xlarge", "none", 128, 84),
        ("./models/openai-community/GPT2/", "ml.g5.4xlarge", "trcomp-off", 100, 84),
        # Another machine of the family has the same GPU.
        ("gpt2", "ml.g4dn.xlarge", "trcomp", 128, 152),
        # No table at 256 tokens: what fits at 512 does.
        ("bert-base-cased", "ml.g4dn.2xlarge", "trcomp", 256, 24),
        ("gpt2", "ml.g5.4xlarge", "none", 1024, None),
        ("gpt2", "ml.p5.48xlarge", "none", 128, None),
    ],
)
def test_the_largest_tested_batch_size(
    model: str, machine: str, compiler: str, length: int, largest: int | None
) -> None:
    assert tested_models.largest_tested(model, machine, compiler, length) == largest


def test_a_range_starts_at_a_sixteenth_of_the_largest() -> None:
    # 84 / 16 is 5.25; 240 / 16 is 15; 24 / 16 is 1.5.
    assert tested_models.tested_batch_sizes("gpt2", "ml.g5.4xlarge", "none", 128) == (8, 16, 32, 64)
    assert tested_models.tested_batch_sizes("gpt2", "ml.g5.4xlarge", "trcomp", 128) == (16, 32, 64, 128)
    assert tested_models.tested_batch_sizes("bert-base-cased", "local", "none", 512) is None


def test_the_whole_table_is_read() -> None:
    assert len(tested_models.tested()) == 131
    assert all(row["batch_native"] or row["batch_compiled"] for row in tested_models.tested())
