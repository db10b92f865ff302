"""Load a model and its tokenizer from a folder."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.pytorch_utils import Conv1D

from models.loading.answer_spans import answer_spans
from models.loading.beginnings import encode_texts, tokenizes_by_word
from models.loading.encoding import Padding, Row, pad_rows
from models.loading.evaluation import Evaluation
from models.loading.precision import Precision, choose_precision
from training.contract.errors import InputError
from training.staging.models.model_files import ModelSource, read_config, usable_positions
from training.staging.tokens.tokenizing import NO_LIMIT_TOKENS, load_tokenizer, pad_token_id

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A loaded model, with everything that the tasks need to compute answers."""

    folder: Path
    model: Any
    """In evaluation mode, on `device`."""
    tokenizer: Any
    """The fast tokenizer of Transformers."""
    backend: Any
    """The same tokenizer in the `tokenizers` library; it truncates to `max_length` and does not pad."""
    tokenizes_by_word: bool
    """True if `backend` certainly tokenizes the words of a text one by one."""
    padding: Padding
    max_length: int | None
    """Most tokens of a row, including special tokens; None if the model has no limit."""
    is_cut: bool
    """True if the caller requested `max_length`; False if it is the model's own limit."""
    takes_types: bool
    """True if the model takes token types."""
    device: str
    """`cpu` or `cuda`."""
    precision: Precision
    batch_size: int | None
    """Rows of a batch in the evaluation, if answers must equal the evaluation's. None: batches may be of any size."""
    row_tokens: int | None
    """Tokens to which the evaluation pads every row. None: to the longest row of the batch."""
    answer_options: Any
    """Options for question answering that the training recorded: `answer_spans.AnswerOptions`."""

    def encodings(self, texts: Sequence[str]) -> list[Any]:
        """Return the encodings of texts, truncated to `max_length`. Of a long text, only the beginning is read."""
        if self.max_length is None or not self.tokenizes_by_word:
            return list(self.backend.encode_batch_fast(texts))
        return encode_texts(self.backend, texts, self.max_length)

    def forward(self, rows: Sequence[Row]) -> Any:
        """Run the rows as one padded batch and return the model's output."""
        with self.inference():
            return self.model(**pad_rows(rows, self.padding, self.device, self.row_tokens))

    @contextmanager
    def inference(self) -> Iterator[None]:
        """Compute without gradients and in the model's precision, as in the evaluation. For the calling thread."""
        is_mixed = self.precision.format != "fp32" and not self.precision.is_whole
        dtype = DTYPES[self.precision.format] if is_mixed else None
        with torch.inference_mode(), torch.autocast(self.device, dtype=dtype, enabled=is_mixed):
            yield


def load(
    folder: Path,
    head: str,
    *,
    precision: str | None,
    evaluation: Evaluation,
    max_length: int | None,
    device: str | None,
) -> Loaded:
    """Load a folder's model with the Transformers class `head`. Raises `InputError`."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    chosen = choose_precision(precision, evaluation.precision, device)
    is_as_evaluated = precision in (None, "auto") and chosen.format == evaluation.precision
    tokenizer = load_tokenizer(ModelSource(name=str(folder), folder=folder, revision=None), None)
    model = _model(folder, head, chosen, evaluation.attention, device)
    pad = pad_token_id(tokenizer)
    if model.config.pad_token_id is None:  # GPT-like models use it to find a row's last token
        model.config.pad_token_id = pad
    limit = _limit(read_config(folder), tokenizer, max_length)
    backend = _backend(tokenizer, limit)
    return Loaded(
        folder=folder,
        model=model,
        tokenizer=tokenizer,
        backend=backend,
        tokenizes_by_word=tokenizes_by_word(backend),
        padding=Padding(
            token=int(pad or 0), type=tokenizer.pad_token_type_id, on_left=tokenizer.padding_side == "left"
        ),
        max_length=limit,
        is_cut=max_length is not None,
        takes_types=_takes_types(model, tokenizer),
        device=device,
        precision=chosen,
        batch_size=evaluation.batch_size if is_as_evaluated else None,
        row_tokens=limit if is_as_evaluated and evaluation.pads_to_max_length else None,
        answer_options=answer_spans.read_options(folder),
    )


def _model(folder: Path, head: str, precision: Precision, attention: str | None, device: str) -> Any:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    # The fastest precision takes the fastest attention, and a CPU has no flash attention.
    is_default = precision.is_whole or attention is None or (device == "cpu" and "flash" in attention)
    options = {} if is_default else {"attn_implementation": attention}
    dtype = DTYPES[precision.format] if precision.is_whole else torch.float32
    try:
        model = getattr(transformers, head).from_pretrained(folder, dtype=dtype, **options)
    # Missing files, damaged weights and unknown classes raise different errors, some of them a bare `Exception`.
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        raise InputError(f"the model in {folder} cannot be loaded: {reason}") from error
    if precision.format != "fp32" and not precision.is_whole:
        _convert_linear_layers(model, DTYPES[precision.format])
    return model.eval().to(device)


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


def architecture(folder: Path) -> str:
    """Return the class that the model was saved as, such as `BertForSequenceClassification`."""
    names = read_config(folder).get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise InputError(f"{folder / 'config.json'} has no field 'architectures', so the model's task is unknown")
    return names[0]
