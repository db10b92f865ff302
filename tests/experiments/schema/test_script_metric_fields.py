"""Metrics of a script: the short form, units and directions."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from experiments.planning.plan import run_tags
from experiments.schema.experiment import Experiment
from experiments.schema.script_metric_fields import declared_scales


def experiment(**metrics: Any) -> Experiment:
    return Experiment.model_validate({"script": {"source": "code", "metrics": metrics}})


def test_a_metric_is_an_expression_or_a_mapping() -> None:
    script = experiment(
        loss="loss (.*)", f1={"pattern": "f1 (.*)", "unit": "fraction", "better": "higher"}, eval_f1={"unit": "percent"}
    ).script
    assert script is not None
    assert script.patterns == {"loss": "loss (.*)", "f1": "f1 (.*)"}
    assert declared_scales(script.metrics) == {
        "f1": {"unit": "fraction", "better": "higher"},
        "eval_f1": {"unit": "percent"},
    }


def test_the_declarations_are_a_tag_of_the_run() -> None:
    tags = run_tags(experiment(f1={"pattern": "f1 (.*)", "unit": "fraction", "better": "higher"}))
    assert tags == {"platform.metric_scales": '{"f1": {"unit": "fraction", "better": "higher"}}'}
    assert run_tags(experiment(loss="loss (.*)")) == {}


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"f1": {}}, "script.metrics.f1 is empty: it needs a pattern, or a unit and a direction"),
        ({"f1": {"unit": "fraction"}}, "add better: higher or better: lower"),
        ({"eval_loss": {"better": "higher"}}, "better is 'higher', but lower values of eval_loss are better"),
        ({"step": {"pattern": "(.*)", "unit": "number", "better": "lower"}}, "it takes only a pattern"),
        ({"f1": {"pattern": "f1", "better": "higher"}}, "has 0 groups; it must have exactly one"),
        ({"f1": {"pattern": "f1 (.*)", "unit": "points"}}, "'fraction', 'percent' or 'number'"),
        ({"f1": {"regex": "f1 (.*)"}}, "regex"),
    ],
)
def test_a_wrong_declaration_is_refused(metrics: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match="script") as error:
        experiment(**metrics)
    assert message in str(error.value)
