"""Comparisons that are certain to end "not comparable" are named before any job runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.planning.equal_work import incomparable
from experiments.planning.load import arms, load
from experiments.planning.plan import plan
from tests.support.requests.staged import staged
from tracking.groups.planned_job import PlannedJob
from training.contract.price import Price
from training.staging.tokens.staged import Staged

ON_SAGEMAKER = {"service": "sagemaker", "machine.instance_type": "ml.g5.xlarge", "aws.role": "trainer"}
PRICES = {"ml.g5.xlarge": 1.4, "ml.p3.2xlarge": 3.8}


def texts(key: str, rows: int, tokens: float, rows_key: str = "r") -> Staged:
    """Return a staging with rows of `tokens` tokens on average."""
    made = staged()
    train = replace(made.description.train, rows=rows, lengths=replace(made.lengths, mean_tokens=tokens))
    return replace(made, key=key, rows_key=rows_key, description=replace(made.description, train=train))


BLOCKS, ROWS = texts("blocks", 200, 500.0), texts("rows", 4000, 25.0)


@pytest.fixture
def sentences(tmp_path: Path) -> Callable[..., list[str]]:
    def of(text: str, *inputs: Staged, prices: dict[str, float] = PRICES, **fields: str) -> list[str]:
        name = fields.pop("name", "sst2-gpt2")
        planned = arms(load(name, {"compare.arms": text, **fields}))
        jobs = plan("g", name, planned, 2, inputs, tmp_path)

        def priced(job: PlannedJob) -> PlannedJob:
            usd = prices.get(job.spec.instance_type)
            return replace(job, price=Price(usd_per_hour=usd, source="s", date="d") if usd else None)

        return incomparable(list(zip(planned, inputs, strict=True)), list(map(priced, jobs)))

    return of


def test_arms_that_train_on_the_same_tokens_are_comparable(sentences: Callable[..., list[str]]) -> None:
    assert sentences("{packed: {packing: true}, rows: {packing: false, batch_size: 200}}", BLOCKS, ROWS) == []


def test_steps_of_different_sizes_are_different_work(sentences: Callable[..., list[str]]) -> None:
    # 100 steps of 10 blocks of 500 tokens, and of 20 rows of 25.
    text = "{packed: {packing: true}, rows: {packing: false, batch_size: 20}}"
    assert sentences(text, BLOCKS, ROWS, max_steps="100", epochs="null") == [
        "“rows” will be not comparable with “packed” because of packing and batch_size: the tokens seen differ (50,000 "
        "to 500,000). `trainfare report --allow samples` compares them anyway."
    ]
    # Where the data is only estimated, its tokens are not certain.
    estimated = replace(BLOCKS, sample_rows=9), replace(ROWS, sample_rows=9)
    assert sentences(text, *estimated, max_steps="100", epochs="null") == []


def test_other_rows_and_other_targets_are_different_work(sentences: Callable[..., list[str]]) -> None:
    [sentence] = sentences("{a: {}, b: {max_length: 64}}", BLOCKS, texts("short", 1600, 62.5, rows_key="s"))
    assert sentence.startswith("“b” will be not comparable with “a” because of max_length: the data differs (r, s). ")
    target = "{{metric: eval_loss, value: {}, stop: true}}"
    text = f"{{a: {{target: {target.format(3.5)}}}, b: {{target: {target.format(3.6)}}}}}"
    [sentence] = sentences(text, BLOCKS, BLOCKS)
    assert "because of target.value: the target at which the training ends differs (eval_loss 3.5, " in sentence


def test_machines_need_prices_and_images_equal_libraries(sentences: Callable[..., list[str]]) -> None:
    text = "{small: {}, large: {machine.instance_type: ml.p3.2xlarge}}"
    fields = {**ON_SAGEMAKER, "name": "demo"}
    assert sentences(text, BLOCKS, BLOCKS, **fields) == []
    assert sentences(text, BLOCKS, BLOCKS, prices={}, **fields) == [
        "“large” will be not comparable with “small” because of machine.instance_type: the instance type differs "
        "(ml.g5.xlarge, ml.p3.2xlarge) and not every job has a price. `trainfare report --allow machine` compares them "
        "anyway."
    ]
    image = "1.dkr.ecr.us-east-1.amazonaws.com/train:{}-gpu"
    for versions, expected in (("2.1.0-transformers4.36.0", 1), ("own", 0)):
        images = [image.format(each) for each in ("2.0.0-transformers4.28.1", versions)]
        text = f"{{a: {{machine.image: {images[0]}}}, b: {{machine.image: {images[1]}}}}}"
        found = sentences(text, BLOCKS, BLOCKS, **fields)
        assert len(found) == expected
        assert all("the image version differs (2.0.0-transformers4.28.1, 2.1.0-transf" in each for each in found)
