"""Causal language modelling: predict each token from those before it."""

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from training.job.data import IGNORED_LABEL
from training.job.processes.reporting import BadData
from training.job.tasks.checks import checked_text
from training.job.tasks.encodings import cut_rows, encodings
from training.job.tasks.inputs import (
    BadInputs,
    EncodedInput,
    Example,
    Rule,
    boolean,
    number,
    parameters,
    same_options,
    whole_number,
)
from training.job.tasks.task import (
    LOSS,
    ColumnNames,
    Encoded,
    Encoder,
    LoadedModel,
    Metric,
    Option,
    Row,
    Scorer,
    Task,
)

if TYPE_CHECKING:
    import numpy as np

    from training.job.data.channels import Channel, ChannelMetadata
    from training.job.data.padding import Batch
    from training.job.weights.pretrained import Pretrained

LARGEST_EXPONENT = 709.0
"""Largest loss whose exponential is finite in double precision."""
SHORTEST_ROW_TOKENS = 2
"""Length of the shortest row that has a token to predict."""
NEW_TOKENS = 50


class CausalLM(Task):
    """Texts packed into blocks of equal length, or one row per text. Evaluations read every text as rows of its own."""

    name = "causal-lm"
    other_names: tuple[str, ...] = ("clm", "language-modeling", "pretraining")
    row = "text"
    without_rows = "only blank texts"
    group = "text"
    options: Mapping[str, Option] = {
        "packing": Option(
            bool,
            True,
            "Language models: train on blocks of `max_length`, filled with the tokens of all texts (true, None), or on "
            "one row per text (false). Evaluations never join texts.",
            requires_task=True,
        )
    }
    predicts_tokens = True
    has_new_head = False
    head = "AutoModelForCausalLM"
    architectures = ("ForCausalLM", "LMHeadModel")
    metrics: tuple[Metric, ...] = (LOSS, Metric("eval_perplexity", "perplexity", best=1.0, decimals=2))
    answer_fields = (("generated_text", "string"),)
    answer_parameters = (("max_new_tokens", "long", 50), ("do_sample", "boolean", False))
    parameter_rules: Mapping[str, Rule] = {
        "max_new_tokens": whole_number(1, 2_048),
        "do_sample": boolean,
        "temperature": number(100.0),
        "top_k": whole_number(1, 1_000_000),
        "top_p": number(1.0),
        "repetition_penalty": number(100.0),
        "return_full_text": boolean,
    }
    pipeline = "text-generation"
    generates = True
    new_tokens = NEW_TOKENS
    """Most tokens of an answer, unless the request says otherwise."""
    returns_prompt = True
    """True if an answer begins with the text that it continues, unless the request says otherwise."""

    def columns(self, names: ColumnNames) -> dict[str, str]:
        return {names.text: "string"}

    def read(self, number: int, place: object, values: Sequence[Any], names: ColumnNames) -> Row | None:
        """Check the text. Blank texts are left out: they contain nothing to learn."""
        if isinstance(values[0], list) and values[0] and isinstance(values[0][0], dict):
            raise BadData(
                f"{place}: column {names.text!r} has the messages of a conversation: set task: chat and "
                f"data.columns.messages: {names.text}"
            )
        value = checked_text(place, names.text, values[0], may_be_blank=True)
        return Row(number, (value,)) if value.strip() else None

    def encoder(self, tokenizer: Any, options: Mapping[str, Any], for_scoring: bool) -> Encoder:
        """Join the tokens of all texts without separators and cut them into blocks, like Hugging Face's run_clm.py.

        Tokens at the end that do not fill a block are dropped. Without packing, each text is a row, truncated. For
        scoring, whatever the packing, a text is one row, or several if it is longer.
        """
        import numpy as np
        import pyarrow as pa

        packs, length = options["packing"] and not for_scoring, options["max_length"]
        rest = np.zeros(0, np.int32)

        def encode(rows: Sequence[Row], classes: Sequence[Sequence[int]]) -> Encoded:
            nonlocal rest
            limit = None if packs or for_scoring else length
            encoded = encodings(tokenizer, [row.texts[0] for row in rows], None, limit)
            # Only texts for scoring are longer than a row without packing.
            ids = [each.ids[at : at + length] for each in encoded for at in range(0, len(each.ids), length)]
            cut = 0 if packs else cut_rows(encoded) + sum(len(each.ids) > length for each in encoded)
            lengths = np.array([len(each) for each in ids], np.int64)
            tokens = np.fromiter(chain.from_iterable(ids), np.int32, int(lengths.sum()))
            if packs:
                tokens = np.concatenate([rest, tokens])
                lengths = np.full(len(tokens) // length, length)
                tokens, rest = tokens[: len(lengths) * length], tokens[len(lengths) * length :]
            else:
                long_enough = lengths >= SHORTEST_ROW_TOKENS
                tokens, lengths = tokens[np.repeat(long_enough, lengths)], lengths[long_enough]
            offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
            columns = {"input_ids": pa.ListArray.from_arrays(offsets, pa.array(tokens, pa.int32()))}
            return Encoded(columns, cut)

        return encode

    def no_rows(self, options: Mapping[str, Any], for_scoring: bool) -> str:
        if for_scoring or not options["packing"]:
            return "have only one token each, so none can be predicted"
        length = options["max_length"]
        return f"do not fill one block of max_length {length} tokens; reduce max_length, or set packing to false"

    def head_fields(self, pretrained: "Pretrained", metadata: "ChannelMetadata") -> dict[str, Any]:
        """Make a decoder of an architecture that is an encoder by default, such as BERT: it attends to later tokens."""
        import transformers

        source = {} if pretrained.is_folder else {"revision": pretrained.revision or "main"}
        try:
            config = transformers.AutoConfig.from_pretrained(pretrained.location, **source)
        except (OSError, ValueError):
            return {}  # Loading the model raises the same error with a message.
        return {"is_decoder": True} if hasattr(config, "is_decoder") else {}

    def targets(self, batch: "Batch") -> "dict[str, np.ndarray]":
        """Return each token as its own label: the models shift the labels. Padding and the first token have none."""
        labels = batch.input_ids.copy()
        labels[batch.attention_mask == 0] = IGNORED_LABEL
        labels[range(len(labels)), batch.starts] = IGNORED_LABEL
        return {"labels": labels}

    def reduce_predictions(self, predictions: Any, labels: Any) -> Any:
        """Return each row's summed loss and number of predicted tokens, rows x 2.

        They replace the logits, which are 100 MB for a row of 512 tokens with GPT-2. Rows are processed one by one,
        because each needs that much memory again.
        """
        import torch

        logits = predictions[0] if isinstance(predictions, tuple) else predictions
        rows = []
        for row, label in zip(logits, labels):
            loss = torch.nn.functional.cross_entropy(
                row[:-1].float(), label[1:], reduction="sum", ignore_index=IGNORED_LABEL
            )
            rows.append(torch.stack([loss, (label[1:] != IGNORED_LABEL).sum().to(loss.dtype)]))
        return torch.stack(rows)

    def scorer(self, channel: "Channel") -> Scorer:
        return TokenLoss(channel.rows.numbers.argsort())

    def read_inputs(self, inputs: object, arguments: Mapping[str, Any] | None) -> list[Example]:
        self.checked_parameters(arguments)
        return super().read_inputs(inputs, arguments)

    def checked_parameters(self, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the parameters of a request. Raises `BadInputs`."""
        options = parameters(arguments, self.parameter_rules)
        for name in ("temperature", "top_k", "top_p"):
            if name in options and not options.get("do_sample"):
                raise BadInputs(f"parameter {name} requires do_sample true: without sampling, it has no effect")
        return options

    def encode_inputs(self, loaded: LoadedModel, examples: Sequence[Example]) -> list[EncodedInput]:
        """Tokenize the texts. Raises `BadInputs` for a text that leaves no room for new tokens."""
        encoded = super().encode_inputs(loaded, examples)
        for each in encoded:
            self.check_room(loaded, each.example, each.length)
        return encoded

    def check_room(self, loaded: LoadedModel, example: Example, tokens: int) -> None:
        """Raise `BadInputs` if a row of this many tokens leaves no room for new ones."""
        follows = int(example.options.get("max_new_tokens", self.new_tokens))
        if loaded.max_length is not None and tokens + follows > loaded.max_length:
            at_least = " or more" if tokens == loaded.max_length else ""
            raise BadInputs(
                f"{example.location} has {tokens} tokens{at_least} and max_new_tokens is {follows}: the model "
                f"accepts at most {loaded.max_length} in total, so shorten the text or lower max_new_tokens"
            )

    def generation_settings(self, loaded: LoadedModel) -> dict[str, Any]:
        """Return arguments of transformers' `generate` that do not come from a request."""
        return {}

    def generate(self, loaded: LoadedModel, encoded: Sequence[EncodedInput]) -> list[Any]:
        """Return `{"generated_text"}` for each text. Texts with the same parameters run together.

        By default each new token is the likeliest one, so the same text always has the same continuation. Transformers'
        pipeline samples by default (`do_sample`).
        """
        made: list[Any] = [None] * len(encoded)
        for same, options in same_options(encoded):
            settings = {"do_sample": False, "max_new_tokens": self.new_tokens, **options}
            settings.update(self.generation_settings(loaded))
            is_whole = settings.pop("return_full_text", self.returns_prompt)
            new = loaded.generate([encoded[at].rows[0] for at in same], settings)
            for at, tokens in zip(same, new):
                continuation = loaded.tokenizer.decode(tokens, skip_special_tokens=True)
                made[at] = {"generated_text": encoded[at].example.text + continuation if is_whole else continuation}
        return made


class TokenLoss:
    """Compute the loss per token, unbiased by the rows' lengths, and the perplexity from the sums."""

    def __init__(self, order: "np.ndarray") -> None:
        """Store the positions of the rows of the data in the order of evaluation."""
        self._order, self._sums = order, order[:0]

    def __call__(self, prediction: Any) -> dict[str, float]:
        self._sums = prediction.predictions
        # Replaces Trainer's eval_loss, which is the mean of the batch means.
        loss_sum, tokens = prediction.predictions.astype("float64").sum(axis=0)[:2]
        loss = float(loss_sum / tokens)
        # Without a perplexity if the model diverged.
        return {"loss": loss, **({"perplexity": math.exp(loss)} if loss <= LARGEST_EXPONENT else {})}

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        return {}

    def rows(self) -> list[dict[str, Any]]:
        """Return each row's predicted `tokens` and their summed `loss`: a row of text has no single prediction."""
        return [{"loss": loss, "tokens": int(tokens)} for loss, tokens, *_ in self._sums[self._order].tolist()]
