"""Settings for Hugging Face's inference toolkit in the image. Pure.

The toolkit (aws/sagemaker-huggingface-inference-toolkit 2.6.0, `handler_service.py`, `transformers_utils.py`) creates
the pipeline that HF_TASK names from the files in /opt/ml/model. A JSON request has `inputs` and `parameters`.
"""

from __future__ import annotations

import json
from pathlib import Path

from training.contract.errors import InputError

PIPELINES = {
    "classification": "text-classification",
    "question-answering": "question-answering",
    "causal-lm": "text-generation",
}
"""Names of our tasks in the toolkit."""
ARCHITECTURES = {
    "ForSequenceClassification": "classification",
    "ForQuestionAnswering": "question-answering",
    "ForCausalLM": "causal-lm",
    "LMHeadModel": "causal-lm",
}
"""Task of a model, by the end of its class name in config.json."""


def task_of(task: str | None, model: Path) -> str:
    """Return a model's task, read from its config.json if `task` is None. Raises InputError if it is unknown."""
    if task is not None:
        if task not in PIPELINES:
            raise InputError(f"task is '{task}': it must be one of {', '.join(PIPELINES)}.")
        return task
    path = model / "config.json"
    try:
        names = json.loads(path.read_text("utf-8")).get("architectures") or []
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(f"the task cannot be read from {path}: {error}. Set task.") from error
    for name in names:
        for end, task_name in ARCHITECTURES.items():
            if str(name).endswith(end):
                return task_name
    raise InputError(
        f"{path} has architectures {names}, but an endpoint serves only models for {', '.join(PIPELINES)}."
    )


def needs_code(task: str) -> bool:
    """Return whether the archive must contain our own code for the task, because the toolkit's pipeline is unsuitable.

    Its pipeline for question answering scores each window separately and limits answers to 15 tokens. Transformers 5
    no longer has it.
    """
    return task == "question-answering"


def environment(task: str, region: str) -> dict[str, str]:
    """Return the container's environment variables: the relevant ones of SageMaker's SDK v2, and the task."""
    return {
        "HF_TASK": PIPELINES[task],
        "SAGEMAKER_CONTAINER_LOG_LEVEL": "20",
        "SAGEMAKER_REGION": region,
    }
