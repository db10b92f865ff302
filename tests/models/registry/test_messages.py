"""Descriptions of registered models."""

from __future__ import annotations

from models.lookup.trained_model import TrainedModel
from models.registry.messages import model_description, version_description

LINK = "[click](https://example.org) <b>"
SHOWN = r"\[click\](https\://example.org) &lt;b&gt;"


def trained() -> TrainedModel:
    """Return a model whose texts, which come from its job and its experiment, are Markdown."""
    return TrainedModel(
        run_id="0" * 32,
        job_name="job-1",
        group="demo-1",
        arm=LINK,
        experiment_name=LINK,
        experiment_id="1",
        task="classification",
        status="FINISHED",
        failure="",
        metrics={"eval_accuracy": 0.9},
        target_metric=None,
        evaluation_key=None,
        data_key=None,
        model_id=None,
        model_artifact=None,
        model_failure=None,
        artifact_uri=None,
        artifact_deleted="",
        versions=LINK,
        instance_type="local",
        chosen=f"The model is that of {LINK}.",
    )


def test_names_and_versions_are_plain_text() -> None:
    assert model_description(LINK).startswith(f"Models of the experiment {SHOWN}. The alias `champion`")
    description = version_description(trained())
    assert f"Trained by job `job-1` ({SHOWN}) of group `demo-1`: [run {'0' * 32}](#/experiments/1/runs/" in description
    assert f"The model is that of {SHOWN}." in description
    assert f"Trained with {SHOWN}." in description
    assert LINK not in description
