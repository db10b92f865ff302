"""A plain training: one process, single precision, PyTorch and transformers alone. Checks compare with it.

It reads from top to bottom as the definition of what a training learns. Nothing here is fast.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, Trainer, get_scheduler

from training.job.compilation.compilers import repeated_layers
from training.job.data import IGNORED_LABEL, SEGMENTS
from training.job.data.padding import Collator, Padding
from training.job.processes import ranks
from training.job.settings.job_settings import Settings

LOSS, NORM = "loss", "gradient norm"
OPTIONS = ("lr", "weight_decay", "betas", "eps")
"""Options of a group of parameters that are compared."""
CHECKED_LAYERS = 3
LOSS_SCALE = 2.0**10
"""Scale of the loss in fp16. With PyTorch's own, the first gradients overflow, and the first steps are not taken."""


@dataclass
class Record:
    """Numbers of a training at each optimizer step."""

    values: list[dict[str, float]] = field(default_factory=list)
    """Loss, norm of the gradient before it is clipped, and norms of some layers' gradients after it, by step."""
    options: list[dict[str, tuple[object, ...]]] = field(default_factory=list)
    """`OPTIONS` of each trained parameter by its name, by step."""

    def add(self, loss: float, norm: object, model: nn.Module, optimizer: Any) -> None:
        """Add a step, just before the optimizer takes it."""
        layers = {name: _gradient_norm(each.parameters()) for name, each in checked_layers(model).items()}
        self.values.append({LOSS: loss, NORM: float(_whole(norm)), **layers})
        names = {parameter: name for name, parameter in model.named_parameters()}
        options = {
            names.get(parameter, "?"): tuple(group[name] for name in OPTIONS)
            for group in optimizer.param_groups
            for parameter in group["params"]
        }
        self.options.append({name: options[name] for name in sorted(options)})

    def options_differ(self, other: "Record") -> Iterator[str]:
        """Yield for each step the first option in which this training's optimizer differs, or an empty text."""
        for mine, its in zip(self.options, other.options):
            name = next((name for name in {**its, **mine} if mine.get(name) != its.get(name)), None)
            if name is None:
                yield ""
            elif name not in mine or name not in its:
                yield f"{name} is {'not ' if name in its else ''}trained"
            else:
                at = next(at for at, value in enumerate(mine[name]) if value != its[name][at])
                yield f"{OPTIONS[at]} of {name} is {mine[name][at]!r} instead of {its[name][at]!r}"


def checked_layers(model: nn.Module) -> dict[str, nn.Module]:
    """Return the embeddings of the tokens, and the first, middle and last layer, by their names."""
    names = {module: name for name, module in model.named_modules()}
    embeddings = model.get_input_embeddings()
    owners = [each for each in names if any(True for _ in each.parameters(recurse=False))]
    layers = repeated_layers(model) or [each for each in owners if each is not embeddings]
    chosen = [embeddings, *(layers[at] for at in _checked(len(layers)))]
    return {names[each]: each for each in chosen}


def keep_checked_layers(model: PreTrainedModel) -> bool:
    """Remove the other layers from each stack of layers. Return True if there were any."""
    layers = set(repeated_layers(model))
    stacks = [
        each
        for each in model.modules()
        if isinstance(each, nn.ModuleList) and len(each) > CHECKED_LAYERS and layers.issuperset(each)
    ]
    for stack in stacks:
        kept = [stack[at] for at in _checked(len(stack))]
        del stack[:]
        stack.extend(kept)
    if is_deeper := getattr(model.config, "num_hidden_layers", 0) > CHECKED_LAYERS:
        model.config.num_hidden_layers = CHECKED_LAYERS  # ALBERT runs one layer as often
    return bool(stacks) or is_deeper


def _checked(layers: int) -> list[int]:
    return [int(at) for at in np.linspace(0, layers - 1, CHECKED_LAYERS)]


def _gradient_norm(parameters: Iterator[nn.Parameter]) -> float:
    # In single precision, the norm of a large tensor depends on the order of its sum by 1e-5.
    gradients = [_whole(each.grad) for each in parameters if each.grad is not None]
    return math.sqrt(sum(float(torch.linalg.vector_norm(each, dtype=torch.float64)) ** 2 for each in gradients))


def _whole(value: Any) -> Any:
    """Return a tensor of which each process has a part, if the model is sharded."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def train_plainly(settings: Settings, model: PreTrainedModel, steps: int, batches: int, *, unpacks: bool) -> Record:
    """Train on all rows in their order, each step on so many batches, and return its record.

    A label has the same weight in all batches of a step, and so has a row of a task with one label a row. `unpacks`
    gives each text of a packed row a row of its own.
    """
    arguments, kind = settings.arguments, settings.device_kind
    device = torch.device(kind, ranks.local_rank()) if kind == "cuda" else torch.device(kind)
    model.to(device).train()
    model.config.use_cache = False  # with a cache, transformers lets the texts of a packed row see each other
    decayed = Trainer.get_decay_parameter_names(None, model)
    trained = [(name in decayed, each) for name, each in model.named_parameters() if each.requires_grad]
    groups = [
        {"params": [each for decays, each in trained if decays], "weight_decay": arguments.weight_decay},
        {"params": [each for decays, each in trained if not decays], "weight_decay": 0.0},
    ]
    betas = (arguments.adam_beta1, arguments.adam_beta2)
    optimizer = torch.optim.AdamW(groups, arguments.learning_rate, betas, arguments.adam_epsilon, foreach=False)
    schedule = get_scheduler(arguments.lr_scheduler, optimizer, 0, steps)
    scaler = torch.amp.GradScaler(kind, LOSS_SCALE, enabled=settings.precision == "fp16")
    record = Record()
    for rows in np.split(np.arange(len(settings.train.rows)), steps):
        parts = [_batch(settings, part, unpacks=unpacks) for part in np.split(rows, batches)]
        counts = [_labels(part, len(rows) // batches) for part in parts]
        total = 0.0
        for part, count in zip(parts, counts):
            with _autocast(settings.precision, kind):
                loss = model(**{name: value.to(device) for name, value in part.items()})["loss"]
            loss = loss * (count / sum(counts))
            scaler.scale(loss).backward()
            total += loss.item()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), arguments.max_grad_norm)
        record.add(total, norm, model, optimizer)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        optimizer.zero_grad()
    return record


def _autocast(precision: str, kind: str) -> AbstractContextManager[object]:
    dtype = {"bf16": torch.bfloat16, "fp8": torch.bfloat16, "fp16": torch.float16}.get(precision)
    return torch.autocast(kind, dtype) if dtype else nullcontext()


def _batch(settings: Settings, numbers: np.ndarray, *, unpacks: bool) -> dict[str, Tensor]:
    channel = settings.train
    rows = [channel.rows[int(number)] for number in numbers]
    batch = Collator(Padding("longest", channel.metadata.max_length), channel.metadata, settings.task.targets)(rows)
    return _unpacked(batch, [row[SEGMENTS] for row in rows], channel.metadata.pad_token_id) if unpacks else batch


def _unpacked(batch: Mapping[str, Tensor], segments: list[np.ndarray], padding: int) -> dict[str, Tensor]:
    """Return a batch of packed rows with each text in a row of its own, padded on the right."""

    def texts(name: str, filler: int) -> Tensor:
        parts = [part for row, sizes in zip(batch[name], segments) for part in row[: sum(sizes)].split(sizes.tolist())]
        return nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_value=filler)

    ids, labels = texts("input_ids", padding), texts("labels", IGNORED_LABEL)
    lengths = torch.tensor([size for sizes in segments for size in sizes.tolist()])
    return {
        "input_ids": ids,
        "labels": labels,
        "attention_mask": (torch.arange(ids.shape[1]) < lengths[:, None]).long(),
    }


def _labels(batch: Mapping[str, Tensor], rows: int) -> int:
    """Return the number of labels in a batch: of tokens that are predicted, or of rows."""
    labels = batch.get("labels")
    return rows if labels is None or labels.is_floating_point() else int((labels != IGNORED_LABEL).sum())


def without_dropout(model: nn.Module) -> None:
    """Set all rates of dropout to 0. The model stays in training mode."""
    for owner in (model.config, *model.modules()):
        for name, value in vars(owner).items():
            if isinstance(value, float) and ("drop" in name or (isinstance(owner, nn.Dropout) and name == "p")):
                setattr(owner, name, 0.0)
