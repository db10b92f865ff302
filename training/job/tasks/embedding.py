"""Embeddings: a vector for each text, whose cosines say how similar texts are.

A row of the data is a pair of texts that match, such a pair and a text that does not match, or a pair with a score. The
texts of a row are encoded in one forward pass (`TEXT_LENGTHS`). Losses and files are those of sentence-transformers.

Losses, with cosines multiplied by `SCALE`:
- Pairs that match: the second text of its row, among all second texts and non-matching texts of the batch, is the right
  answer to a first text (multiple negatives ranking loss; Henderson et al. 2017, https://arxiv.org/abs/1705.00652).
  Left out are texts that equal the first text or its right answer, and the right answers of equal first texts.
- Scores: of two pairs in a batch, the one with the larger score must have the larger cosine (CoSENT,
  https://kexue.fm/archives/8847).

Both depend on the batch size. An evaluation computes them over all its rows at once, so its loss does not.
"""

import json
import math
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from training.job.data import TEXT_LENGTHS
from training.job.processes.reporting import BadData
from training.job.tasks.checks import checked_number, checked_text
from training.job.tasks.encodings import cut_rows, encodings, numbers
from training.job.tasks.inputs import EncodedInput, TokenRow
from training.job.tasks.task import (
    SPEARMAN,
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
    from torch import Tensor

    from training.job.data.channels import Channel, ChannelMetadata
    from training.job.data.padding import Batch
    from training.job.weights.pretrained import Pretrained

SCALE = 20.0
"""Factor on cosines in both losses, as in sentence-transformers."""
FIRST_ANSWERS = 10
"""Answers that NDCG and MRR look at."""
POOLING = "embedding_pooling"
"""Field of a model's configuration that marks an encoder of this task."""
MODULES = ("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")
"""Modules of a model in sentence-transformers, with their folders."""
BLOCK_ROWS = 1_024
"""Rows whose cosines to all others are in memory at once."""


class Embedding(Task):
    """Vectors of texts, trained on pairs, triplets, or pairs with a score."""

    name = "embedding"
    other_names = ("sentence-similarity", "sentence-transformers")
    group = "first text"
    options: Mapping[str, Option] = {
        "pooling": Option(
            Literal["mean", "cls"],
            "mean",
            "Embeddings: the vector of a text is the mean of its tokens' vectors, or the vector of its first token. It "
            "is normalised. None means `mean`.",
            requires_task=True,
        )
    }
    training_options = ("pooling",)
    list_columns = (TEXT_LENGTHS,)
    number_columns = ("score",)
    head = "AutoModel"
    architectures = ()
    has_new_head = False
    metrics = (
        SPEARMAN,
        Metric("eval_ndcg_at_10", "NDCG@10", "fraction", higher_is_better=True, best=1.0),
        Metric("eval_mrr_at_10", "MRR@10", "fraction", higher_is_better=True, best=1.0),
    )
    scores_untrained = True
    answer_fields = (("embedding", "double[]"),)
    pipeline = "feature-extraction"
    has_own_endpoint_code = True  # the toolkit's pipeline returns the vectors of all tokens

    def fits(self, config: Mapping[str, Any]) -> bool:
        """Return whether the configuration has the mark of this task, and its model has no head."""
        first = str(next(iter(config.get("architectures") or []), ""))
        # A model that was trained further for another task has the mark too.
        return POOLING in config and first.endswith("Model") and not first.endswith("HeadModel")

    def metrics_of(self, names: ColumnNames) -> tuple[Metric, ...]:
        """Return Spearman's correlation for pairs with a score, and else the ranking metrics."""
        return self.metrics[:1] if names.score else self.metrics[1:]

    def columns(self, names: ColumnNames) -> dict[str, str]:
        texts = (names.text, names.text_pair or "text_pair", *([names.negative] if names.negative else []))
        return {**dict.fromkeys(texts, "string"), **({names.score: "double"} if names.score else {})}

    def check_options(self, options: Any) -> None:
        """Refuse columns that make no row, and batches that would be incomplete or accumulated."""
        columns = options.data.columns
        if columns.text_pair is None:
            raise ValueError("data.columns.text_pair must name the column with the second text of a pair")
        if columns.score and columns.negative:
            raise ValueError("data.columns.score and data.columns.negative cannot be combined: a score replaces it")
        if options.gradient_accumulation_steps > 1:
            raise ValueError(
                "gradient_accumulation_steps must be 1 for embeddings: a text is compared with its own batch only, so "
                "several small batches do not train as a large one does; raise batch_size"
            )
        if not options.drop_last:
            raise ValueError("drop_last must be true for embeddings: a smaller last batch has a loss of another level")
        if options.batch_size < 2:
            raise ValueError("batch_size must be at least 2 for embeddings: texts are compared within their batch")

    def read(self, number: int, place: object, values: Sequence[Any], names: ColumnNames) -> Row:
        """Check the texts and the score."""
        columns = list(self.columns(names))
        texts = columns[:-1] if names.score else columns
        checked = tuple(checked_text(place, name, value) for name, value in zip(texts, values))
        score = checked_number(place, columns[-1], values[-1]) if names.score else math.nan
        # Rows with the same first text must not be on both sides.
        return Row(number, checked, group=checked[0], detail=score)

    def encoder(self, tokenizer: Any, options: Mapping[str, Any], for_scoring: bool) -> Encoder:
        """Encode each text by itself, truncated."""
        import pyarrow as pa

        def encode(rows: Sequence[Row], classes: Sequence[Sequence[int]]) -> Encoded:
            texts = [text for row in rows for text in row.texts]
            encoded, count = encodings(tokenizer, texts, None, options["max_length"]), len(rows[0].texts)
            ids = [[each.ids for each in encoded[at : at + count]] for at in range(0, len(encoded), count)]
            for row, own in zip(rows, ids):
                if not all(own):
                    raise BadData(f"row {row.number}: the tokenizer finds no tokens in one of its texts")
            columns = {
                "input_ids": pa.array([[*chain.from_iterable(own)] for own in ids], pa.list_(pa.int32())),
                TEXT_LENGTHS: pa.array([[len(each) for each in own] for own in ids], pa.list_(pa.int32())),
                "score": numbers([row.detail for row in rows]),
            }
            return Encoded(columns, sum(cut_rows(encoded[at : at + count]) > 0 for at in range(0, len(texts), count)))

        return encode

    def load_model(self, pretrained: "Pretrained", metadata: "ChannelMetadata") -> Any:
        """Return the encoder, whose forward pass also pools, and computes the loss of a batch with labels."""
        model, pooling = super().load_model(pretrained, metadata), metadata.options["pooling"]
        setattr(model.config, POOLING, pooling)
        if (pooler := getattr(model, "pooler", None)) is not None:
            # Its output is not used, and DDP refuses weights without gradients.
            pooler.requires_grad_(False)
            names = {f"pooler.{name}" for name, _ in pooler.named_parameters()}
            model.new_weights = names.union(getattr(model, "new_weights", ()))
        encode = model.forward

        def forward(
            input_ids: "Tensor", attention_mask: "Tensor", labels: "Tensor | None" = None, **inputs: Any
        ) -> "dict[str, Tensor]":
            hidden = encode(input_ids=input_ids, attention_mask=attention_mask, **inputs)[0]
            vectors = pooled(hidden, attention_mask, pooling)
            if labels is None:
                return {"embeddings": vectors}
            vectors = vectors.reshape(len(labels), -1, vectors.shape[-1])
            loss = cosent_loss if labels.dim() == 1 else ranking_loss
            return {"loss": loss(vectors, labels), "embeddings": vectors}

        model.forward = forward
        return model

    def reduce_predictions(self, predictions: Any, labels: Any) -> Any:
        """Return the cosine of each pair with a score, or the vectors of each pair that matches."""
        return predictions[:, :2] if labels.dim() == 2 else (predictions[:, 0] * predictions[:, 1]).sum(dim=-1)

    def targets(self, batch: "Batch") -> "dict[str, np.ndarray]":
        """Return the score of each row; without scores, numbers of its texts, rows x texts, equal for equal texts."""
        import numpy as np

        if not math.isnan(batch.rows[0]["score"]):
            return {"labels": np.array([row["score"] for row in batch.rows], np.float32)}
        tokens = [ids[mask == 1].tobytes() for ids, mask in zip(batch.input_ids, batch.attention_mask)]
        number_of = {text: number for number, text in enumerate(tokens)}
        return {"labels": np.array([number_of[text] for text in tokens], np.int64).reshape(len(batch.rows), -1)}

    def scorer(self, channel: "Channel") -> Scorer:
        return EmbeddingScorer(channel)

    def outputs(self, loaded: LoadedModel, rows: Sequence[TokenRow]) -> list[Any]:
        import torch

        hidden = loaded.forward(rows).last_hidden_state
        lengths = torch.tensor([[len(row.ids)] for row in rows], device=hidden.device)
        places = torch.arange(hidden.shape[1], device=hidden.device)
        mask = places >= hidden.shape[1] - lengths if loaded.pads_left else places < lengths
        return list(pooled(hidden, mask, getattr(loaded.model.config, POOLING, "mean")))

    def answers(self, loaded: LoadedModel, encoded: Sequence[EncodedInput], outputs: Sequence[Any]) -> list[Any]:
        """Return `{"embedding"}` for each text, a list of numbers whose squares sum to 1."""
        return [{"embedding": vector.tolist()} for vector in outputs]

    def write_files(self, model: Any, metadata: "ChannelMetadata", folder: Path) -> None:
        """Write what makes the folder a model of sentence-transformers."""
        pooling, size = metadata.options["pooling"], model.config.hidden_size
        modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
        files: dict[str, Any] = {
            "modules.json": [
                {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{name}"}
                for at, (name, path) in enumerate(MODULES)
            ],
            "sentence_bert_config.json": {"max_seq_length": metadata.max_length, "do_lower_case": False},
            "1_Pooling/config.json": {
                "word_embedding_dimension": size,
                **{f"pooling_mode_{mode}": mode.startswith(pooling) and "sqrt" not in mode for mode in modes},
            },
        }
        for name, content in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(json.dumps(content, indent=2), "utf-8")


def pooled(hidden: "Tensor", mask: "Tensor", pooling: str) -> "Tensor":
    """Return the normalised vector of each row, rows x width, from its tokens' vectors, rows x tokens x width.

    `mask`, rows x tokens, is 0 for padding.
    """
    from torch.nn.functional import normalize

    hidden = hidden.float()
    if pooling == "cls":
        first = mask.long().argmax(dim=1)
        return normalize(hidden[range(len(hidden)), first], dim=-1)
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return normalize((hidden * weights).sum(dim=1) / weights.sum(dim=1), dim=-1)


def ranking_loss(vectors: "Tensor", texts: "Tensor") -> "Tensor":
    """Return the mean cross entropy of the right answer to each row's first text.

    `vectors` are rows x texts x width. `texts` are numbers of the texts, rows x texts.
    """
    import torch

    answers, candidates = vectors[:, 1:].transpose(0, 1).flatten(0, 1), texts[:, 1:].t().flatten()
    with torch.autocast(vectors.device.type, enabled=False):
        scores = SCALE * vectors[:, 0] @ answers.t()
    # The answers of equal first texts; texts that do not match follow the answers.
    of_equal = torch.zeros_like(scores, dtype=torch.bool)
    of_equal[:, : len(texts)] = texts[:, :1] == texts[:, 0]
    left_out = of_equal | (candidates == texts[:, 1:2]) | (candidates == texts[:, :1])
    scores = scores.masked_fill(left_out.fill_diagonal_(False), -math.inf)
    return torch.nn.functional.cross_entropy(scores, torch.arange(len(texts), device=texts.device))


def cosent_loss(vectors: "Tensor", scores: "Tensor") -> "Tensor":
    """Return the logarithm of 1 plus the sum, over all ordered pairs of rows, of exp(20 x too large a cosine).

    `vectors` are rows x 2 x width. `scores` has a number for each row.
    """
    import torch

    cosines = SCALE * (vectors[:, 0] * vectors[:, 1]).sum(dim=-1)
    excess = cosines.unsqueeze(1) - cosines
    excess = excess.masked_fill(~(scores.unsqueeze(1) < scores), -math.inf).flatten()
    return torch.logsumexp(torch.cat([excess.new_zeros(1), excess]), dim=0)


class EmbeddingScorer:
    """Computes the scores, and the loss over all rows."""

    def __init__(self, channel: "Channel") -> None:
        rows = [channel.rows[at] for at in range(len(channel.rows))]
        self._order: list[int] = channel.rows.numbers.argsort().tolist()
        self._rows: list[float] = []
        self._scores = [row["score"] for row in rows if not math.isnan(row["score"])]
        number_of: dict[bytes, int] = {}
        ends = (row[TEXT_LENGTHS].cumsum() for row in rows)
        self._texts = [
            [number_of.setdefault(row["input_ids"][start:end].tobytes(), len(number_of)) for start, end in _spans(each)]
            for row, each in zip(rows, ends)
        ]

    def __call__(self, prediction: Any) -> dict[str, float]:
        import numpy as np

        if self._scores:
            from training.job.tasks.row_scores import spearman

            cosines, scores = prediction.predictions.astype(np.float64), np.array(self._scores)
            self._rows = cosines.tolist()
            return {"loss": whole_cosent_loss(cosines, scores), "spearman": spearman(cosines, scores)}
        loss, ndcg, place = ranking(prediction.predictions, np.array(self._texts)).T
        self._rows = place.tolist()
        reciprocal = np.where(place <= FIRST_ANSWERS, 1 / place, 0.0)
        means = {"loss": loss, f"ndcg_at_{FIRST_ANSWERS}": ndcg, f"mrr_at_{FIRST_ANSWERS}": reciprocal}
        return {name: float(values.mean()) for name, values in means.items()}

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        return {}

    def rows(self) -> list[dict[str, Any]]:
        """Return each row's score and cosine, or the place of the first right answer, where 1 is the best."""
        scores = [*map(float, self._scores)] or [1] * len(self._rows)
        return [{"reference": scores[at], "prediction": self._rows[at]} for at in self._order]


def _spans(ends: Any) -> list[tuple[int, int]]:
    return list(zip([0, *ends[:-1].tolist()], ends.tolist()))


def whole_cosent_loss(cosines: "np.ndarray", scores: "np.ndarray") -> float:
    """Return `cosent_loss` of any number of rows, by sums over the rows with smaller scores."""
    import numpy as np

    order = np.argsort(scores, kind="stable")
    cosines, scores = SCALE * cosines[order], scores[order]
    smaller = np.concatenate([[0.0], np.cumsum(np.exp(cosines))])[np.searchsorted(scores, scores)]
    return float(np.log1p((smaller * np.exp(-cosines)).sum()))


def ranking(vectors: "np.ndarray", texts: "np.ndarray") -> "np.ndarray":
    """Rank the second texts of all rows for each row's first text. Return rows x (loss, NDCG, place of a right answer).

    `vectors` are rows x texts x width, `texts` the numbers of the texts, rows x texts. A right answer is the second
    text of a row with an equal first text. Equal texts count once, and a text is no wrong answer to itself. NDCG and
    MRR: Järvelin and Kekäläinen 2002,
    https://doi.org/10.1145/582415.582418, and Voorhees 1999. The loss is over the same candidates.
    """
    import numpy as np

    _, at = np.unique(texts[:, 1], return_index=True)
    answers, candidates = vectors[at, 1].astype(np.float32), texts[at, 1]
    of_first: dict[int, list[int]] = {}
    results = []
    for first, answer in zip(texts[:, 0].tolist(), np.searchsorted(candidates, texts[:, 1]).tolist()):
        of_first.setdefault(first, []).append(answer)
    gains = 1 / np.log2(np.arange(FIRST_ANSWERS) + 2)
    for start in range(0, len(vectors), BLOCK_ROWS):
        block = SCALE * (vectors[start : start + BLOCK_ROWS, 0].astype(np.float32) @ answers.T)
        for line, (first, second, *_) in zip(block, texts[start : start + BLOCK_ROWS].tolist()):
            right, own = np.unique(of_first[first]), np.searchsorted(candidates, second)
            line[(candidates == first) & ~np.isin(candidates, candidates[right])] = -np.inf
            # Rank of a right answer: the number of answers with a larger cosine. A tie counts as worse.
            places = np.sort([(line >= line[each]).sum() - 1 for each in right])
            others = np.delete(line, right[right != own]).astype(np.float64)
            loss = np.log(np.exp(others - others.max()).sum()) + others.max() - line[own]
            ndcg = gains[places[places < FIRST_ANSWERS]].sum() / gains[: len(right)].sum()
            results.append((loss, ndcg, places[0] + 1))
    return np.array(results)
