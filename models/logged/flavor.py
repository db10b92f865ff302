"""Turn a trained model's folder into an MLflow model, by writing the files around the weights.

`mlflow.transformers.save_model` needs the model in memory. Here the weights stay on disk, and neither torch nor
transformers is imported. The finished folder contains

    MLmodel, requirements.txt, python_env.yaml, conda.yaml, input_example.json, serving_input_example.json
    model/                  a complete Transformers folder: configuration, weights, tokenizer
    components/tokenizer/   a copy of the tokenizer, where `mlflow.transformers` looks for it
    code/                   the model's `python_function`: `pyfunc.py` and what it imports of ours
"""

from __future__ import annotations

import ast
import hashlib
import logging
import re
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema, TensorSpec
from mlflow.types.schema import AnyType
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from models.loading.answer_spans import PATH as ANSWER_SPANS
from models.loading.evaluation import UNKNOWN, Evaluation
from models.logged.checkpoint import Checkpoint
from tracking.groups.planned_job import ModelPlan

WEIGHTS = "model"
"""Subfolder of the MLflow model that is a complete Transformers folder."""
PIPELINES = {
    "classification": ("text-classification", "TextClassificationPipeline"),
    "question-answering": ("question-answering", "QuestionAnsweringPipeline"),
    "causal-lm": ("text-generation", "TextGenerationPipeline"),
}
"""Name and pipeline of each task in Transformers."""
PACKAGES = ("mlflow", "torch", "transformers", "accelerate", "tokenizers", "safetensors", "numpy", "pandas")
"""Packages that a logged model imports."""

ROOT = Path(__file__).resolve().parents[2]
LOADER = Path("models/logged/pyfunc.py")
OUR_IMPORT = re.compile(r"^( *from) (models|training)\.", re.MULTILINE)

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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of MLflow about a class of its own
        import mlflow.pyfunc
    logging.getLogger("mlflow.pyfunc").setLevel(logging.WARNING)

    for name in checkpoint.tokenizer_files:
        target = folder / "components" / "tokenizer" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / WEIGHTS / name, target)
    model = Model(**names)
    model.add_flavor("transformers", **_transformers(checkpoint))
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        code, made = Path(scratch) / "stored", Path(scratch) / "made"
        package = store_code(code)
        mlflow.pyfunc.save_model(
            made,
            loader_module=".".join([package, *LOADER.with_suffix("").parts]),
            code_paths=[str(code / package)],
            mlflow_model=model,
            signature=signature(checkpoint.task, plan),
            input_example=_example(checkpoint.task, plan),
            pip_requirements=_pinned(),
            metadata={**metadata, "task": checkpoint.task, "label_names": list(checkpoint.label_names)},
            model_config={"task": checkpoint.task, **plan.answering, "evaluation": asdict(evaluation)},
            uv_project_path=scratch,  # otherwise MLflow stores the `uv.lock` of the folder in which we run
        )
        for path in made.iterdir():
            path.rename(folder / path.name)
    model.model_size_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    model.save(str(folder / "MLmodel"))


def store_code(folder: Path) -> str:
    """Copy `pyfunc.py` and ours that it imports to a package in `folder`, and return the package's name.

    The name has a digest of the code. So the package hides none of the user's, such as `models`, and models of
    different versions can be loaded in one process.
    """
    texts = {path: (ROOT / path).read_text("utf-8") for path in _imported_files()}
    package = f"trainfare_{hashlib.sha256(repr(texts).encode()).hexdigest()[:12]}"
    for path, text in texts.items():
        target = folder / package / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(OUR_IMPORT.sub(rf"\1 {package}.\2.", text), "utf-8")
    return package


def _imported_files() -> list[Path]:
    """Return the files of ours that are executed when `pyfunc.py` is imported."""
    files, left = {ANSWER_SPANS.relative_to(ROOT)}, [LOADER]
    while left:
        file = left.pop()
        if file in files or not (ROOT / file).is_file():
            continue
        files.add(file)
        for node in ast.parse((ROOT / file).read_text("utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                module = Path(*node.module.split("."))
                left += [module.with_suffix(".py"), *(module / f"{each.name}.py" for each in node.names)]
    return sorted(files)


def _pinned() -> list[str]:
    """Return `name==version`, as installed here, for the packages of a model and all that they require.

    Packages that are not installed are left out: nothing that runs here needs them.
    """
    versions: dict[str, str] = {}
    left, seen = [Requirement(name) for name in PACKAGES], set[str]()
    while left:
        requirement = left.pop()
        with suppress(PackageNotFoundError):
            package = distribution(requirement.name)
            versions[canonicalize_name(requirement.name)] = package.version.partition("+")[0]  # without `+cpu`
            if str(requirement) not in seen:
                seen.add(str(requirement))
                for each in map(Requirement, package.requires or []):
                    extras = ("", *requirement.extras)
                    if not each.marker or any(each.marker.evaluate({"extra": extra}) for extra in extras):
                        left.append(each)
    others = sorted(versions.keys() - set(PACKAGES))
    return [f"{name}=={versions[name]}" for name in (*PACKAGES, *others)]


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
    task, pipeline = PIPELINES[checkpoint.task]
    return {
        "transformers_version": version("transformers"),
        "code": None,
        "task": task,
        "instance_type": pipeline,
        "pipeline_model_type": checkpoint.architecture,
        "source_model_name": WEIGHTS,
        "model_binary": WEIGHTS,
        "components": ["tokenizer"],
        # The tokenizer's own class may not exist in a different version of Transformers.
        "tokenizer_type": "AutoTokenizer",
    }
