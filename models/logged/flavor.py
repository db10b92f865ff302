"""Turn a trained model's folder into an MLflow model, by writing the files around the weights.

`mlflow.transformers.save_model` needs the model in memory. Here the weights stay on disk, and neither torch nor
transformers is imported. The finished folder contains

    MLmodel, requirements.txt, python_env.yaml, conda.yaml, input_example.json, serving_input_example.json
    model/                  a complete Transformers folder: configuration, weights, tokenizer
    components/tokenizer/   a copy of the tokenizer, where `mlflow.transformers` looks for it
    code/                   the model's `python_function`
"""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml
from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema, TensorSpec
from mlflow.types.schema import AnyType

from models.loading.answer_spans import PATH as ANSWER_SPANS
from models.loading.evaluation import UNKNOWN, Evaluation
from models.logged.checkpoint import Checkpoint
from models.logged.pinned_packages import PACKAGES, pinned
from tracking.groups.planned_job import ModelPlan

WEIGHTS = "model"
"""Subfolder of the MLflow model that is a complete Transformers folder."""
TASKS = {
    "classification": "text-classification",
    "question-answering": "question-answering",
    "causal-lm": "text-generation",
}
"""Names of the tasks in Transformers."""
PIPELINES = {
    "classification": "TextClassificationPipeline",
    "question-answering": "QuestionAnsweringPipeline",
    "causal-lm": "TextGenerationPipeline",
}
CODE = Path(__file__).resolve().parent / "stored" / "trainfare_pyfunc.py"
SPANS = "trainfare_answer_spans.py"
"""File name of the stored copy of `answer_spans.py`."""

PYTHON_ENVIRONMENT = "python_env.yaml"
CONDA_ENVIRONMENT = "conda.yaml"

SENTENCE = "Winter is coming and it will be dark soon."
QUESTION = {"question": "What is coming?", "context": SENTENCE}
PAIR = {"text": SENTENCE, "text_pair": "The days are getting shorter."}


def write(
    folder: Path,
    checkpoint: Checkpoint,
    plan: ModelPlan,
    metadata: Mapping[str, Any],
    evaluation: Evaluation = UNKNOWN,
    **names: Any,
) -> None:
    """Write all files around `folder/model`. `MLmodel` comes last: a folder without it is not an MLflow model.

    `metadata` is added to the model's metadata. `evaluation` has the settings with which the model was evaluated.
    `names` (run_id, model_id ...) are arguments of MLflow's `Model`.
    """
    for name in checkpoint.tokenizer_files:
        target = folder / "components" / "tokenizer" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / WEIGHTS / name, target)
    _write_code(folder / "code")
    _write_environment(folder)
    example = _example(checkpoint.task, plan)
    (folder / "input_example.json").write_text(json.dumps(example), "utf-8")
    (folder / "serving_input_example.json").write_text(json.dumps({"inputs": example}, indent=1), "utf-8")
    model = Model(
        signature=signature(checkpoint.task, plan),
        saved_input_example_info={
            "artifact_path": "input_example.json",
            "serving_input_path": "serving_input_example.json",
            "type": "json_object",
        },
        metadata={**metadata, "task": checkpoint.task, "label_names": list(checkpoint.label_names)},
        model_size_bytes=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        **names,
    )
    model.add_flavor("transformers", **_transformers(checkpoint))
    model.add_flavor("python_function", **_python_function(checkpoint, plan, evaluation))
    model.save(str(folder / "MLmodel"))


def signature(task: str, plan: ModelPlan) -> ModelSignature:
    """Return a model's signature: inputs, outputs and parameters.

    Inputs have any type, because MLflow would convert a number to its text before the model could refuse it.
    """
    inputs: list[ColSpec | TensorSpec] = [ColSpec(AnyType())]
    params = ParamSchema([])
    outputs: list[ColSpec | TensorSpec] = [ColSpec("string", "label"), ColSpec("double", "score")]
    if task == "classification" and plan.is_of_pairs:
        inputs = [ColSpec(AnyType(), "text"), ColSpec(AnyType(), "text_pair")]
    elif task == "question-answering":
        inputs = [ColSpec(AnyType(), "question"), ColSpec(AnyType(), "context")]
        numbers = [ColSpec("double", "score"), ColSpec("long", "start"), ColSpec("long", "end")]
        outputs = [ColSpec("string", "answer"), *numbers]
    elif task == "causal-lm":
        outputs = [ColSpec("string", "generated_text")]
        params = ParamSchema([ParamSpec("max_new_tokens", "long", 50), ParamSpec("do_sample", "boolean", False)])
    return ModelSignature(Schema(inputs), Schema(outputs), params if params.params else None)  # type: ignore[arg-type]


def _example(task: str, plan: ModelPlan) -> str | dict[str, str]:
    if task == "question-answering":
        return QUESTION
    return PAIR if task == "classification" and plan.is_of_pairs else SENTENCE


def _transformers(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the flavor that `mlflow.transformers.load_model` reads."""
    return {
        "transformers_version": version("transformers"),
        "code": None,
        "task": TASKS[checkpoint.task],
        "instance_type": PIPELINES[checkpoint.task],
        "pipeline_model_type": checkpoint.architecture,
        "source_model_name": WEIGHTS,
        "model_binary": WEIGHTS,
        "components": ["tokenizer"],
        # The tokenizer's own class may not exist in a different version of Transformers.
        "tokenizer_type": "AutoTokenizer",
    }


def _python_function(checkpoint: Checkpoint, plan: ModelPlan, evaluation: Evaluation) -> dict[str, Any]:
    return {
        "loader_module": CODE.stem,
        "code": "code",
        "config": {"task": TASKS[checkpoint.task], **plan.answering, "evaluation": asdict(evaluation)},
        "python_version": platform.python_version(),
        # MLflow reads both entries, whichever environment manager it uses.
        "env": {"virtualenv": PYTHON_ENVIRONMENT, "conda": CONDA_ENVIRONMENT},
    }


def _write_code(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    shutil.copyfile(CODE, folder / CODE.name)
    shutil.copyfile(ANSWER_SPANS, folder / SPANS)


def _write_environment(folder: Path) -> None:
    """Pin the versions installed here. The model runs under them, even if it was trained with different ones."""
    (folder / "requirements.txt").write_text("\n".join(pinned(PACKAGES)) + "\n", "utf-8")
    python, build = platform.python_version(), pinned(["pip", "setuptools"])
    packages = ["-r requirements.txt"]
    _write_yaml(folder / PYTHON_ENVIRONMENT, {"python": python, "build_dependencies": build, "dependencies": packages})
    conda = [f"python={python}", *build, {"pip": packages}]
    _write_yaml(folder / CONDA_ENVIRONMENT, {"name": "mlflow-env", "channels": ["conda-forge"], "dependencies": conda})


def _write_yaml(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(yaml.safe_dump(content, sort_keys=False), "utf-8")
