"""Turn a trained model's folder into an MLflow model, by writing the files around the weights.

The weights stay on disk, and neither torch nor transformers is imported. The finished folder contains

    MLmodel, requirements.txt, python_env.yaml, conda.yaml, input_example.json, serving_input_example.json
    model/                  a complete Transformers folder: configuration, weights, tokenizer
    code/                   the model's `python_function`: `pyfunc.py` and what it imports of ours
"""

from __future__ import annotations

import ast
import json
import logging
import re
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema
from mlflow.types.schema import AnyType, Array

from models.inference.evaluation import UNKNOWN, Evaluation, read_task
from state.digests import digest
from tracking.groups.planned_job import ModelPlan
from training.contract.errors import InputError
from training.job.tasks import TASKS, Task
from training.services.artifact import unpack

WEIGHTS = "model"
"""Subfolder of the MLflow model that is a complete Transformers folder."""
PACKAGES = ("mlflow", "torch", "transformers", "accelerate", "tokenizers", "safetensors", "numpy", "pandas")
"""Packages that a logged model imports."""

ROOT = Path(__file__).resolve().parents[2]
LOADER = Path("models/logged/pyfunc.py")
TASK_FILES = sorted((ROOT / "training" / "job" / "tasks").glob("*.py"))
OUR_IMPORT = re.compile(r"^( *from) (models|state|training)\.", re.MULTILINE)

WEIGHT_FILES = re.compile(r"(model|pytorch_model|adapter_model)(-\d+-of-\d+)?\.(safetensors|bin)(\.index\.json)?")
TOKENIZER = re.compile(
    r"tokenizer.*|vocab\..*|merges\.txt|special_tokens_map\.json|added_tokens\.json|.*\.model|spiece.*|"
    r"chat_template.*|.*_sentencepiece.*"
)
ADAPTER_FILE = "adapter_config.json"
"""File that only a model kept as an adapter has."""
COMPILED = b"_orig_mod."
"""Part of the names of weights that `torch.compile` adds."""
OTHERS = re.compile(
    r"(config|generation_config|adapter_config|adapter_base|modules|sentence_bert_config|1_Pooling/config)\.json|"
    r"README\.md"
)


class NotServable(Exception):
    """The folder has no model that can be served. The message is one sentence about the folder."""


def is_needed(path: PurePosixPath) -> bool:
    """Return whether a served model needs a file of the job's artifact. It needs no checkpoints or optimizer states."""
    is_own = len(path.parts) == 1 or OTHERS.fullmatch(str(path)) is not None
    return is_own and any(each.fullmatch(str(path)) for each in (WEIGHT_FILES, TOKENIZER, OTHERS))


def unpack_model(archive: BinaryIO, folder: Path, archive_name: str) -> int:
    """Unpack what a served model needs from a job's artifact, and return its bytes. Raises NotServable, ArtifactError.

    The names of a compiled model's weights become those of the model itself. An adapter of peft gets the configuration
    of its model and the reference to its base model.
    """
    names = list[str]()

    def is_selected(path: PurePosixPath) -> bool:
        names.append(str(path))
        return is_needed(path)

    size_bytes = unpack(archive, folder, archive_name=archive_name, is_selected=is_selected)
    if (folder / ADAPTER_FILE).is_file() and not (folder / "adapter_base.json").is_file():
        try:
            _complete_adapter(folder)
        except (OSError, ValueError, KeyError) as error:
            problem = f"its {ADAPTER_FILE}, or the base model that it names, cannot be read; merge the two"
            raise NotServable(f"{problem}: {repr(error)[:300]}") from error
    if not (folder / "config.json").is_file():
        content = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        raise NotServable(
            f"it has no config.json, so it is not a Transformers folder, but has {content or 'no file'}: save the "
            "model and its tokenizer by save_pretrained in the model folder (SM_MODEL_DIR) itself"
        )
    for file in folder.glob("*.safetensors"):
        with file.open("r+b") as opened:  # 8 bytes with the length of a header, which may end in blanks
            header = opened.read(int.from_bytes(opened.read(8), "little"))
            if COMPILED in header:
                opened.seek(8)
                opened.write(header.replace(COMPILED, b"").ljust(len(header)))
    for file in folder.glob("*.index.json"):
        file.write_bytes(file.read_bytes().replace(COMPILED, b""))
    return size_bytes


def _complete_adapter(folder: Path) -> None:
    import transformers
    from peft import MODEL_TYPE_TO_PEFT_MODEL_MAPPING

    from training.job.weights.adapters import BASE_FILE, Base

    adapter = json.loads((folder / ADAPTER_FILE).read_text("utf-8"))
    name, revision = str(adapter["base_model_name_or_path"]), adapter.get("revision")
    name = str(Path(name).resolve()) if Path(name).is_dir() else name  # the folder of a channel is a link
    source, kind = folder if (folder / "config.json").is_file() else name, str(adapter.get("task_type"))
    if source is not folder and not kind.endswith("_LM"):
        raise NotServable("it is an adapter without the model's config.json: save that beside it, with the labels")
    config = transformers.AutoConfig.from_pretrained(source, revision=revision)
    if kind in MODEL_TYPE_TO_PEFT_MODEL_MAPPING:  # such as PeftModelForCausalLM
        head = MODEL_TYPE_TO_PEFT_MODEL_MAPPING[kind].__name__.replace("Peft", "Auto")
        config.architectures = [getattr(transformers, head)._model_mapping[type(config)].__name__]
    config.save_pretrained(folder)
    (folder / BASE_FILE).write_text(json.dumps(Base(name, revision, False)._asdict()), "utf-8")


def served_task(folder: Path) -> str:
    """Return the task of the trained model in a folder. Raises NotServable if it cannot be served."""
    try:
        task = read_task(folder)
    except InputError as error:
        raise NotServable(str(error)) from error
    files = [path.name for path in folder.iterdir() if path.is_file()]
    if not any(WEIGHT_FILES.fullmatch(name) for name in files):
        raise NotServable("it has neither model.safetensors nor pytorch_model.bin")
    if not any(TOKENIZER.fullmatch(name) for name in files):
        raise NotServable("it has no tokenizer files, so the model cannot read texts")
    return task


def check_loads(folder: Path) -> None:
    """Raise NotServable for a model that cannot be loaded. A script may save any."""
    from models.inference.predictor import load_problem

    if reason := load_problem(folder, served_task(folder)):
        raise NotServable(reason)


def write(
    folder: Path,
    task_name: str,
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

    model, task = Model(**names), TASKS[task_name]
    packages = (*PACKAGES, "peft") if (folder / WEIGHTS / ADAPTER_FILE).is_file() else PACKAGES
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        code, made = Path(scratch) / "stored", Path(scratch) / "made"
        package = store_code(code)
        mlflow.pyfunc.save_model(
            made,
            loader_module=".".join([package, *LOADER.with_suffix("").parts]),
            code_paths=[str(code / package)],
            mlflow_model=model,
            signature=signature(task, plan),
            input_example={**task.example} if task.names_input else task.example_input(plan.is_of_pairs),
            pip_requirements=[f"{name}=={version(name).partition('+')[0]}" for name in packages],  # without `+cpu`,
            metadata={**metadata, "task": task_name},
            model_config={"task": task_name, **plan.answering, "evaluation": asdict(evaluation)},
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
    # Tasks import their helpers in functions.
    texts, left = dict[Path, str](), [LOADER, *(path.relative_to(ROOT) for path in TASK_FILES)]
    while left:  # the files of ours that are executed when `pyfunc.py` is imported
        file = left.pop()
        if file in texts or not (ROOT / file).is_file():
            continue
        texts[file] = (ROOT / file).read_text("utf-8")
        for node in ast.parse(texts[file]).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                module = Path(*node.module.split("."))
                parts = ("__init__", *(each.name for each in node.names))
                left += [module.with_suffix(".py"), *(module / f"{part}.py" for part in parts)]
    texts = dict(sorted(texts.items()))
    package = f"trainfare_{digest(repr(texts), 12)}"
    for path, text in texts.items():
        target = folder / package / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(OUR_IMPORT.sub(rf"\1 {package}.\2.", text), "utf-8")
    return package


def signature(task: Task, plan: ModelPlan) -> ModelSignature:
    """Return a model's signature: inputs, outputs and parameters.

    Inputs have any type, because MLflow would convert a number to its text before the model could refuse it.
    """
    names = task.input_fields(plan.is_of_pairs)
    has_names = len(names) > 1 or task.names_input
    inputs = [ColSpec(AnyType(), name) for name in names] if has_names else [ColSpec(AnyType())]
    outputs = [ColSpec(_mlflow_type(kind), name) for name, kind in task.answer_fields]
    given = {name: value for name, value in plan.answering.items() if value is not None}
    params = ParamSchema(
        [ParamSpec(name, kind, given.get(name, default)) for name, kind, default in task.answer_parameters]
    )
    return ModelSignature(Schema(inputs), Schema(outputs), params if params.params else None)  # type: ignore[arg-type]


def _mlflow_type(kind: str) -> Any:
    if kind == "any":
        return AnyType()
    return Array(kind[:-2]) if kind.endswith("[]") else kind
