"""Settings for Hugging Face's inference toolkit in the image. Pure.

The toolkit (aws/sagemaker-huggingface-inference-toolkit 2.6.0, `handler_service.py`, `transformers_utils.py`) makes
the pipeline that HF_TASK names from the files in /opt/ml/model, and takes `inputs` and `parameters` of a JSON request.
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
"""The toolkit's names of our tasks."""
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
            raise InputError(f"task is '{task}': an endpoint serves {', '.join(PIPELINES)}.")
        return task
    path = model / "config.json"
    try:
        names = json.loads(path.read_text("utf-8")).get("architectures") or []
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(f"{path} tells no task: {error}. Give the task.") from error
    for name in names:
        for end, task_name in ARCHITECTURES.items():
            if str(name).endswith(end):
                return task_name
    raise InputError(f"{path} names the architectures {names}: an endpoint serves {', '.join(PIPELINES)}.")


def needs_code(task: str) -> bool:
    """Return whether the archive brings its own code for the task, in place of the toolkit's pipeline.

    The pipeline for questions scores each window for itself and cuts answers at 15 tokens; Transformers 5 has none.
    """
    return task == "question-answering"


def environment(task: str, region: str) -> dict[str, str]:
    """Return the variables of the container: those of SageMaker's SDK v2 that say anything, and the task."""
    return {
        "HF_TASK": PIPELINES[task],
        "SAGEMAKER_CONTAINER_LOG_LEVEL": "20",
        "SAGEMAKER_REGION": region,
    }
