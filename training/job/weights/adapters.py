"""Adapters: train small matrices beside a model's weights, or only its head, and leave all other weights as they are.

LoRA: Hu et al. 2021, https://arxiv.org/abs/2106.09685; QLoRA: Dettmers et al. 2023, https://arxiv.org/abs/2305.14314.
The library peft adds the matrices to the model in place, which keeps its class. Containers may lack peft, so it is
imported only when a job trains such an adapter.

A model kept as an adapter is a folder with `adapter_config.json` and `adapter_model.safetensors` in peft's form, the
model's configuration, and `adapter_base.json`, which identifies the base model.
"""

import hashlib
import json
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from training.job.processes.reporting import ArgumentError, Unsupported

BASE_FILE = "adapter_base.json"
WEIGHTS_FILE = "adapter_model.safetensors"
PREFIX = "base_model.model."
"""Beginning of the names in peft's files."""
NAME = ".default"
"""Part of the name of each of peft's weights, which is not in its files."""
VALUES_PER_PARAMETER = 256
"""Values of each parameter that are hashed: enough to distinguish models of the same shape, and fast to read."""


class Base(NamedTuple):
    """The base model of an adapter."""

    name: str
    """Name on the Hub, folder, or `package:NAME`."""
    revision: str | None
    """Branch, tag or commit on the Hub; None means main."""
    quantized: bool
    """True if matrices were in 4 bits, so that the digest leaves them out."""
    digest: str = ""
    """Digest of the weights that the training left as they were."""


def weights_digest(parameters: Iterable[tuple[str, Tensor]]) -> str:
    """Return the digest of a part of each parameter."""
    digest = hashlib.sha256()
    for name, parameter in parameters:
        values = parameter.detach().flatten()[:VALUES_PER_PARAMETER].cpu().numpy()
        digest.update(f"{name} {tuple(parameter.shape)}".encode() + values.tobytes())
    return digest.hexdigest()[:16]


def attach(model: Any, adapter: Any, keeps_head: bool) -> None:
    """Freeze a loaded model's body and add the adapter. The head, and weights that the model lacked, are trained.

    `adapter` has the fields of `AdapterSettings`. With `keeps_head`, the head is a part of the pretrained model, such
    as a language model's, and is frozen too. Raises `ArgumentError` for targets that the model does not have, and
    `Unsupported` without the package peft.
    """
    body, new = {id(each) for each in model.base_model.parameters()}, getattr(model, "new_weights", ())
    trained = {
        name
        for name, each in model.named_parameters()
        if each.requires_grad and (name in new or not (keeps_head or id(each) in body))
    }
    if adapter.method != "frozen":
        linear = _linear_layers(model.base_model)
        layers = [name for name, each in model.named_modules() if id(each) in linear and f"{name}.weight" not in new]
        _inject(
            model,
            _peft().LoraConfig(
                r=adapter.rank,
                lora_alpha=adapter.alpha,
                lora_dropout=adapter.dropout,
                target_modules=_targets(type(model).__name__, layers, adapter.targets),
            ),
        )
    for name, each in model.named_parameters():
        each.requires_grad_(name in trained or "lora_" in name)


def is_attached(model: Any) -> bool:
    """Return True if a model has an adapter."""
    return getattr(model, "adapter_config", None) is not None


def _linear_layers(body: nn.Module) -> set[int]:
    """Return the ids of a model's linear layers. GPT-2's are transposed and have a class of their own."""
    from transformers.pytorch_utils import Conv1D

    return {id(each) for each in body.modules() if isinstance(each, (nn.Linear, Conv1D))}


def _targets(model_class: str, layers: list[str], requested: tuple[str, ...]) -> list[str]:
    if requested == ("auto",):
        return layers
    unmatched = [each for each in requested if not any(f".{name}".endswith(f".{each}") for name in layers)]
    if unmatched:
        known = ", ".join(sorted({name.rpartition(".")[2] for name in layers}))
        raise ArgumentError(
            f"adapter.targets {', '.join(unmatched)} names no linear layer in the body of {model_class}, whose layers "
            f"are {known}: use these names, or auto"
        )
    return [name for name in layers if any(f".{name}".endswith(f".{each}") for each in requested)]


def _inject(model: Any, config: Any) -> None:
    from transformers.pytorch_utils import Conv1D

    config.fan_in_fan_out = any(type(each) is Conv1D for each in model.base_model.modules())
    _peft().inject_adapter_in_model(config, model)
    model.adapter_config = config
    if getattr(model, "is_quantized", False):
        model._hf_peft_config_loaded = True  # else Trainer refuses a model in 4 bits


def _peft() -> Any:
    if sys.modules.get("peft", "") is None:
        del sys.modules["peft"]  # blocked by `lean_imports`
    try:
        import peft
    except ImportError as error:
        raise Unsupported(f"an adapter needs the package peft ({error}): run `pip install peft`") from error
    return peft


def quantization(model: nn.Module) -> dict[str, Any]:
    """Return the arguments of `from_pretrained` that load the body's linear layers in 4 bits, as QLoRA does.

    `model` is the same model without weights. Its head and pooler may be new, so they stay in single precision. Raises
    `Unsupported` without a GPU or the package bitsandbytes.
    """
    if not torch.cuda.is_available():
        raise Unsupported("adapter.method qlora needs an NVIDIA GPU, and this machine has none: use method lora")
    if find_spec("bitsandbytes") is None:
        raise Unsupported("adapter.method qlora needs the package bitsandbytes: install it, or use method lora")
    from transformers import BitsAndBytesConfig

    head = [name for name, each in model.named_children() if model.base_model not in (model, each)]
    config = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.bfloat16,
        llm_int8_skip_modules=[*head, "pooler"],
    )
    return {"quantization_config": config, "dtype": torch.float32}


def _base_digest(parameters: Iterable[tuple[str, Tensor]], trained: Iterable[str], quantized: bool) -> str:
    left_out = set(trained)
    named = ((name.replace(".base_layer", ""), each) for name, each in parameters)
    return weights_digest(
        (name, each) for name, each in named if name not in left_out and (each.dim() < 2 or not quantized)
    )


def save(model: Any, folder: Path) -> None:
    """Write the trained weights, and only them."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        PREFIX + name.replace(NAME, ""): each.detach().cpu().contiguous()
        for name, each in model.named_parameters()
        if each.requires_grad
    }
    save_file(weights, str(folder / WEIGHTS_FILE), metadata={"format": "pt"})


def load(model: Any, folder: Path) -> None:
    """Set the trained weights of a model with its adapter to those of a folder."""
    from safetensors.torch import load_file

    saved = load_file(str(folder / WEIGHTS_FILE))
    with torch.no_grad():
        for name, each in model.named_parameters():
            if (key := PREFIX + name.replace(NAME, "")) in saved:
                each.copy_(saved.pop(key))
    if saved:
        raise ValueError(f"{folder / WEIGHTS_FILE} has weights that the model lacks: {', '.join(sorted(saved))}")


def describe(model: Any, base: Base, folder: Path) -> None:
    """Write the configurations beside the trained weights, so that the folder is a complete model."""
    trained = [name for name, each in model.named_parameters() if each.requires_grad]
    config = model.adapter_config
    config.modules_to_save = sorted({name.rpartition(".")[0] for name in trained if "lora_" not in name}) or None
    config.base_model_name_or_path, config.revision = base.name, base.revision
    config.save_pretrained(str(folder))
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(str(folder))
    digest = _base_digest(model.named_parameters(), trained, base.quantized)
    (folder / BASE_FILE).write_text(json.dumps(base._replace(digest=digest)._asdict(), indent=2), "utf-8")


def read_base(folder: Path) -> Base | None:
    """Return the base model that the adapter in a folder belongs to; None for a folder with a whole model."""
    file = folder / BASE_FILE
    return Base(**json.loads(file.read_text("utf-8"))) if file.is_file() else None


def restore(model: Any, folder: Path) -> set[str]:
    """Add the adapter in a folder to its base model, with the trained weights, and return their names.

    Raises `ValueError` if the model is another one than in training, and `Unsupported` without the package peft.
    """
    from safetensors import safe_open

    base = read_base(folder)
    assert base is not None, "called for an adapter"
    with safe_open(str(folder / WEIGHTS_FILE), "pt") as file:
        trained = [name[len(PREFIX) :] for name in file.keys()]  # noqa: SIM118 - it is no dictionary
    # An adapter that a script has saved has no digest.
    if base.digest and _base_digest(model.named_parameters(), trained, base.quantized) != base.digest:
        raise ValueError(f"its weights are not those of the training, whose digest is {base.digest}")
    config = _peft().LoraConfig.from_pretrained(str(folder))
    config.modules_to_save = None
    _inject(model, config)
    load(model, folder)
    return set(trained)


def merge(model: Any) -> None:
    """Add the adapter's products to the weights, and make the model a plain one again. Its weights stay frozen."""
    layer_class = _peft().tuners.tuners_utils.BaseTunerLayer
    for name, module in list(model.named_modules()):
        if isinstance(module, layer_class):
            module.merge()
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, module.get_base_layer())
    model.adapter_config = None
