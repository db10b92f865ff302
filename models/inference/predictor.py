"""Load a model and compute its answers in three steps: read inputs, tokenize them, run them in padded batches.

The steps are separate, so that a server can reject a bad request immediately, and run the inputs of many requests in
one batch.
"""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers.pytorch_utils import Conv1D

from models.inference.evaluation import UNKNOWN, Evaluation, choose_precision, read_task
from training.contract.errors import InputError, nearest
from training.job.tasks import OPTIONS_FILE, TASKS, Task
from training.job.tasks.inputs import EncodedInput, TokenRow
from training.job.weights import adapters
from training.staging.models.model_files import ModelSource, locate, read_config, usable_positions
from training.staging.tokens.tokenizing import NO_LIMIT_TOKENS, load_tokenizer, pad_token_id

MOST_TOKENS = {"cpu": 512, "cuda": 65_536}
"""Most tokens of a batch, including padding, by device. On a CPU, larger batches are not faster: at this size a core
multiplies at full speed, and the activations still fit its cache (measured with MiniLM, 128 to 4,096 tokens)."""

RunEach = Callable[[Callable[[Any], list[Any]], Iterable[Any]], Iterable[list[Any]]]
"""Calls a function with each batch and returns the results in order, such as `map`."""


DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""Type of autocast, by precision."""
_LOADING = threading.Lock()
"""Held while a model is loaded: transformers replaces a method of all models meanwhile (`no_tie_weights`), and two
threads at a time would leave it replaced."""
TEXTS_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A loaded model, with everything that the tasks need to compute answers."""

    model: Any
    """In evaluation mode, on `device`."""
    tokenizer: Any
    """The fast tokenizer of Transformers."""
    backend: Any
    """The same tokenizer in the `tokenizers` library; it truncates to `max_length` and does not pad."""
    pad_token: int
    """Token with which the shorter rows of a batch are padded."""
    max_length: int | None
    """Most tokens of a row, including special tokens; None if the model has no limit."""
    is_cut: bool
    """True if the caller requested `max_length`; False if it is the model's own limit."""
    takes_types: bool
    device: str
    """`cpu` or `cuda`."""
    precision: str
    """fp32, bf16 or fp16. In 16 bits, only the matrix products are, as in training and evaluation."""
    batch_size: int | None
    """Rows of a batch in the evaluation, if answers must equal the evaluation's. None: batches may be of any size."""
    row_tokens: int | None
    """Tokens to which the evaluation pads every row. None: to the longest row of the batch."""
    options: Mapping[str, Any]
    """The task's `answering_options` that the training recorded."""

    @property
    def adds_special_tokens(self) -> bool:
        """True if the tokenizer adds special tokens, so that an empty text has tokens."""
        return int(self.backend.num_special_tokens_to_add(False)) > 0

    @property
    def pads_left(self) -> bool:
        return str(self.tokenizer.padding_side) == "left"

    def rows(self, texts: Sequence[str | tuple[str, str]]) -> list[TokenRow]:
        """Return texts or pairs of texts as rows, truncated to `max_length`."""
        # In parts, because the tokens of a long text that are cut off take much memory.
        parts = (texts[start : start + TEXTS_AT_ONCE] for start in range(0, len(texts), TEXTS_AT_ONCE))
        encodings = (encoding for part in parts for encoding in self.backend.encode_batch_fast(part))
        return [TokenRow(each.ids, each.type_ids) for each in encodings]

    def forward(self, rows: Sequence[TokenRow]) -> Any:
        """Run the rows as one padded batch and return the model's output."""
        with self.inference():
            return self.model(**self._batch(rows, self.row_tokens, self.pads_left))

    def generate(self, rows: Sequence[TokenRow], settings: Mapping[str, Any]) -> list[list[int]]:
        """Return the tokens that the model generates after each row. `settings` have transformers' names."""
        # A decoder's rows are padded on the left, so that new tokens follow each text directly. What an encoder reads
        # is padded on the right, because some encoders count positions from the first token of the row.
        is_encoder_decoder = bool(self.model.config.is_encoder_decoder)
        batch = self._batch(rows, None, on_left=not is_encoder_decoder)
        batch.setdefault("attention_mask", torch.ones_like(batch["input_ids"]))
        with self.inference():
            output = self.model.generate(**batch, **settings, pad_token_id=self.pad_token)
        # An encoder-decoder's output starts with the decoder's start token.
        made: list[list[int]] = output[:, 1 if is_encoder_decoder else batch["input_ids"].shape[1] :].tolist()
        return made

    @contextmanager
    def inference(self) -> Iterator[None]:
        """Compute without gradients and in the model's precision, as in the evaluation. For the calling thread."""
        dtype = DTYPES.get(self.precision)
        with torch.inference_mode(), torch.autocast(self.device, dtype=dtype, enabled=dtype is not None):
            yield

    def _batch(self, rows: Sequence[TokenRow], width: int | None, on_left: bool) -> dict[str, Any]:
        """Return the model's inputs, padded to the shape (rows, `width`), by default the tokens of the longest row.

        A batch without padding has no attention mask.
        """
        lengths = [len(row.ids) for row in rows]
        width = max(lengths) if width is None else width
        arrays = {"input_ids": _pad_lines([row.ids for row in rows], width, self.pad_token, on_left)}
        if min(lengths) < width:
            arrays["attention_mask"] = _pad_lines([[1] * length for length in lengths], width, 0, on_left)
        if any(row.types is not None for row in rows):
            types = [row.types or [0] * len(row.ids) for row in rows]
            arrays["token_type_ids"] = _pad_lines(types, width, self.tokenizer.pad_token_type_id, on_left)
        return {name: torch.from_numpy(array).to(self.device) for name, array in arrays.items()}


def _pad_lines(lines: Sequence[list[int]], width: int, fill_value: int, on_left: bool) -> np.ndarray:
    filled = np.full((len(lines), width), fill_value, dtype=np.int64)
    for row, line in zip(filled, lines, strict=True):
        row[width - len(line) if on_left else 0 : width if on_left else len(line)] = line
    return filled


class Predictor:
    """A loaded model and its task. Any thread may call any step."""

    def __init__(self, task: Task, loaded: Loaded) -> None:
        self.task = task.name
        """Name of the task."""
        self.loaded = loaded
        self.encode_may_refuse: bool = task.encode_may_refuse(loaded)
        """True if `encode` can raise `BadInputs` for inputs that `read` accepts."""
        self._task = task

    def read(self, inputs: object, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Return one example per input. `inputs` is one input or a list of inputs.

        Raises `BadInputs` with one sentence that describes the error.
        """
        return list(self._task.read_inputs(inputs, parameters))

    def encode(self, examples: Sequence[Any]) -> list[EncodedInput]:
        """Tokenize the examples, in order. Raises `BadInputs` for an example that does not fit the model."""
        return self._task.encode_inputs(self.loaded, examples)

    def answer(self, inputs: object, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Run all three steps and return the answers, as JSON values, in the order of the inputs."""
        return self.answer_encoded(self.encode(self.read(inputs, parameters)))

    def answer_encoded(self, encoded: Sequence[EncodedInput], run_each: RunEach = map) -> list[Any]:
        """Run any number of tokenized inputs, and return the answers in their order.

        `run_each` is `map` or an executor's `map`. The rows are batched as in the model's evaluation, if that is known:
        in 16 bits, an answer depends a little on the padding and the number of rows of its batch.
        """
        task, loaded = self._task, self.loaded
        run: Callable[..., list[Any]] = task.outputs
        items: list[Any] = [row for each in encoded for row in each.rows]
        lengths, size = [len(row.ids) for row in items], loaded.batch_size
        if task.generates:
            items, lengths, size, run = list(encoded), [each.length for each in encoded], None, task.generate
        most_tokens = MOST_TOKENS[loaded.device]
        planned = batches(lengths, most_tokens) if size is None else evaluation_batches(lengths, size)
        results = run_each(partial(run, loaded), [[items[at] for at in batch] for batch in planned])
        outputs: list[Any] = [None] * len(items)
        for batch, made in zip(planned, results, strict=True):
            for at, output in zip(batch, made, strict=True):
                outputs[at] = output
        return outputs if task.generates else task.answers(loaded, encoded, outputs)


def load_predictor(
    folder: Path,
    *,
    task: str | None = None,
    precision: str | None = None,
    evaluation: Evaluation = UNKNOWN,
    max_length: int | None = None,
) -> Predictor:
    """Return a predictor for a Transformers folder, which has configuration, weights and tokenizer.

    If `task` is None, it is read from the configuration. `precision` is auto (None), fp32, bf16 or fp16; see
    `choose_precision`. `evaluation` has the settings of the evaluation. `max_length` truncates inputs to fewer tokens
    than the model accepts; by default, it is the evaluation's. Raises `InputError`.
    """
    name = task or read_task(folder)
    if name not in TASKS:
        raise InputError(f"task is {name!r}: it must be one of {', '.join(TASKS)}.{nearest(name, TASKS)}")
    max_length = evaluation.max_length if max_length is None else max_length
    device = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = choose_precision(precision, evaluation.precision, device)
    is_as_evaluated = precision in (None, "auto") and chosen == evaluation.precision
    tokenizer = load_tokenizer(ModelSource(name=str(folder), folder=folder, revision=None), None)
    model = _model(folder, TASKS[name].head, chosen, evaluation.attention, device)
    pad = pad_token_id(tokenizer)
    if model.config.pad_token_id is None:  # GPT-like models use it to find a row's last token
        model.config.pad_token_id = pad
    limit, record = _limit(read_config(folder), tokenizer, max_length), folder / OPTIONS_FILE
    loaded = Loaded(
        model=model,
        tokenizer=tokenizer,
        backend=_backend(tokenizer, limit),
        pad_token=int(pad or 0),
        max_length=limit,
        is_cut=max_length is not None,
        takes_types=_takes_types(model, tokenizer),
        device=device,
        precision=chosen,
        batch_size=evaluation.batch_size if is_as_evaluated else None,
        row_tokens=limit if is_as_evaluated and evaluation.pads_to_max_length else None,
        options=json.loads(record.read_text("utf-8")) if record.exists() else {},
    )
    return Predictor(TASKS[name], loaded)


def _model(folder: Path, head: str, precision: str, attention: str | None, device: str) -> Any:
    is_default = attention is None or (device == "cpu" and "flash" in attention)  # a CPU has no flash attention
    options = {} if is_default else {"attn_implementation": attention}
    base, problem = adapters.read_base(folder), f"the model in {folder} cannot be loaded"
    try:
        if base is not None:
            problem = (
                f"the adapter in {folder} needs its base model {base.name} (revision {base.revision or 'main'}); if "
                f"that is in another folder here, name it in {adapters.BASE_FILE}"
            )
        model = _load(getattr(transformers, head), folder, options, dtype=torch.float32).to(torch.float32)
    # Missing files, damaged weights and unknown classes raise different errors, some of them a bare `Exception`.
    except Exception as error:
        raise InputError(f"{problem}: {_reason(error)}") from error
    if precision in DTYPES:
        _convert_linear_layers(model, DTYPES[precision])
    return model.eval().to(device)


def _reason(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def load_problem(folder: Path, task: str) -> str | None:
    """Return why the model in a folder cannot be loaded, or None. Its files are compared, but their values not read."""
    try:
        _load(getattr(transformers, TASKS[task].head), folder, {}, device_map="meta")
    except Exception as error:
        return _reason(error)
    return None


def _load(load: Any, folder: Path, attention: Mapping[str, str | None], **options: Any) -> Any:
    """Load the model in a folder or, for an adapter, its base model, to which the adapter is added.

    Raises ValueError for weights that are in no file: transformers would give them random values.
    """
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    base, location = adapters.read_base(folder), str(folder)
    options |= {**attention, "ignore_mismatched_sizes": True, "output_loading_info": True}
    if base is not None:
        source = locate(base.name, base.revision)
        options["config"] = transformers.AutoConfig.from_pretrained(folder, **attention)
        location, options["revision"] = source.location, source.revision or "main"
    with _LOADING:
        model, loaded = load.from_pretrained(location, **options)
    new = {*loaded["missing_keys"], *(name for name, *_ in loaded["mismatched_keys"])}
    new -= adapters.restore(model, folder) if base is not None else set()
    if load is transformers.AutoModel:  # no task uses its pooler
        new = {name for name in new if not name.startswith("pooler.")}
    if new:
        lacking = ", ".join(sorted(new)[:3]) + (f" and {len(new) - 3} more" if len(new) > 3 else "")
        instead = "".join(f", but have {name}" for name in sorted(loaded["unexpected_keys"])[:1])
        raise ValueError(f"its files lack the weights {lacking}{instead}: save the whole model by save_pretrained")
    return model


def _convert_linear_layers(model: Any, dtype: torch.dtype) -> None:
    """Convert the weights that autocast would convert at each run of the model. The answers stay the same to the bit.

    Weights that other layers share, such as embeddings, stay in single precision.
    """
    linear = [module for module in model.modules() if type(module) in (torch.nn.Linear, Conv1D)]
    others = [module for module in model.modules() if type(module) not in (torch.nn.Linear, Conv1D)]
    shared = {id(weights) for module in others for weights in module.parameters(recurse=False)}
    for module in linear:
        for weights in module.parameters(recurse=False):
            if id(weights) not in shared:
                weights.data = weights.data.to(dtype)


def _limit(config: dict[str, Any], tokenizer: Any, max_length: int | None) -> int | None:
    known = [usable_positions(config), tokenizer.model_max_length]
    limits = [limit for limit in known if limit is not None and limit < NO_LIMIT_TOKENS]
    if max_length is not None and limits and max_length > min(limits):
        raise InputError(f"max_length is {max_length}, but the model accepts at most {min(limits)} tokens")
    return min([*limits, *([] if max_length is None else [max_length])], default=None)


def _backend(tokenizer: Any, max_length: int | None) -> Any:
    """Return a copy of the tokenizer in the `tokenizers` library. Changing the original does not affect it."""
    from tokenizers import Tokenizer

    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_padding()
    backend.no_truncation()
    if max_length is not None:
        backend.enable_truncation(max_length, strategy="longest_first", direction=tokenizer.truncation_side)
    return backend


def _takes_types(model: Any, tokenizer: Any) -> bool:
    """Return whether the model distinguishes two texts. DistilBERT has no token types, RoBERTa has only type 0."""
    is_argument = "token_type_ids" in inspect.signature(model.forward).parameters
    known = getattr(model.config, "type_vocab_size", 2)
    return is_argument and known > 1 and "token_type_ids" in tokenizer.model_input_names


def batches(lengths: Sequence[int], most_tokens: int) -> list[list[int]]:
    """Group rows into batches of at most `most_tokens`, and return the positions of each batch's rows.

    Each row is padded to the longest of its batch. The longest rows come first, so that none runs alone at the end.
    """
    result: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lambda at: (-lengths[at], at)):
        if result and (len(result[-1]) + 1) * lengths[result[-1][0]] <= most_tokens:
            result[-1].append(position)
        else:
            result.append([position])
    return result


def evaluation_batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Group rows as an evaluation does, and return the positions of each batch's rows.

    Rows are sorted by length, and equally long ones stay in order: see `Settings.evaluated` of the job. The longest
    batches come first, so that a long one does not run alone at the end.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)][::-1]
