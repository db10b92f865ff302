"""Sequence to sequence: an encoder reads a text, and a decoder generates the target, such as a summary.

Evaluations generate texts and score them with BLEU and chrF by sacrebleu, and ROUGE-L.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from training.job.data import IGNORED_LABEL, TARGET_IDS
from training.job.processes.reporting import BadData
from training.job.tasks.checks import checked_text
from training.job.tasks.encodings import encodings, token_columns
from training.job.tasks.inputs import EncodedInput, Example, Rule, boolean, number, same_options, whole_number
from training.job.tasks.task import (
    LOSS,
    MAX_TOKENS,
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

    from training.job.data.channels import Channel
    from training.job.data.padding import Batch

TARGETS = "targets.parquet"
"""File with the source and the target of each validation row as texts."""
MAX_TABLE_ROWS = 100
"""Sources in the table of generated texts, the first of the data."""


class Seq2Seq(Task):
    """A target for each source. Rows with the same source are several references of it."""

    name = "seq2seq"
    other_names = ("summarization", "translation", "t5")
    group = "source"
    # The rest of the note is "at max_length 128".
    cut = "cut, the targets at max_target_length, the sources"
    options: Mapping[str, Option] = {
        "source_prefix": Option(
            str,
            "",
            'Sequence to sequence: text in front of every source, such as "summarize: " for T5.',
            {},
            requires_task=True,
        ),
        "max_target_length": Option(
            int,
            128,
            "Sequence to sequence: longest target in tokens, end token included; None means 128. Longer ones are cut.",
            {"ge": 2, "le": MAX_TOKENS},
            requires_task=True,
        ),
        "max_new_tokens": Option(
            int,
            128,
            "Sequence to sequence: most tokens that an evaluation generates for a source; None means 128.",
            {"ge": 1, "le": MAX_TOKENS},
            requires_task=True,
        ),
        "num_beams": Option(
            int,
            1,
            "Sequence to sequence: beams of an evaluation's generation; None means 1, the likeliest token each time.",
            {"ge": 1, "le": 100},
            requires_task=True,
        ),
        "generate_rows": Option(
            int,
            500,
            "Sequence to sequence: different sources, the first of the validation rows, for which an evaluation "
            "generates texts; None means 500. The loss is computed on all rows.",
            {"ge": 1, "le": 1_000_000_000},
            requires_task=True,
        ),
    }
    scoring_options = ("max_new_tokens", "num_beams", "generate_rows", "max_target_length")
    training_options = ("max_target_length",)
    evaluated_options = ("generate_rows",)
    answering_options = ("max_length", "source_prefix", "max_new_tokens", "num_beams")
    length_options = ("max_target_length", "max_new_tokens")
    packages = ("sacrebleu==2.6.0",)
    list_columns = (TARGET_IDS,)
    has_new_head = False
    head = "AutoModelForSeq2SeqLM"
    architectures = ("ForConditionalGeneration", "MTModel", "EncoderDecoderModel")
    # BLEU comes first: it scores what users get, and is comparable between tokenizers, which a loss per token is not.
    metrics = (
        Metric("eval_bleu", "BLEU", "percent", higher_is_better=True, best=100.0, decimals=2),
        Metric("eval_chrf", "chrF", "percent", higher_is_better=True, best=100.0, decimals=2),
        Metric("eval_rouge_l", "ROUGE-L", "percent", higher_is_better=True, best=100.0, decimals=2),
        LOSS,
    )
    answer_fields = (("generated_text", "string"),)
    answer_parameters = (("max_new_tokens", "long", 128), ("num_beams", "long", 1), ("do_sample", "boolean", False))
    parameter_rules: Mapping[str, Rule] = {
        "max_new_tokens": whole_number(1, 2_048),
        "num_beams": whole_number(1, 100),
        "do_sample": boolean,
        "temperature": number(100.0),
        "top_k": whole_number(1, 1_000_000),
        "top_p": number(1.0),
        "repetition_penalty": number(100.0),
        "length_penalty": number(100.0),
        "no_repeat_ngram_size": whole_number(1, 1_000),
    }
    pipeline = "text2text-generation"
    generates = True
    has_own_endpoint_code = True  # transformers 5 has no such pipeline

    def fits(self, config: Mapping[str, Any]) -> bool:
        """Return whether the model is an encoder-decoder: some decoders of images and text have the same class name."""
        return bool(config.get("is_encoder_decoder")) and super().fits(config)

    def columns(self, names: ColumnNames) -> dict[str, str]:
        return {names.text: "string", names.target: "string"}

    def read(self, number: int, place: object, values: Sequence[Any], names: ColumnNames) -> Row:
        """Check the source and the target. References of one source are not divided between training and validation."""
        source, target = (checked_text(place, *pair) for pair in zip((names.text, names.target), values))
        return Row(number, (source, target), group=source)

    def encoder(self, tokenizer: Any, options: Mapping[str, Any], for_scoring: bool) -> Encoder:
        """Encode source and target as `tokenizer(source, text_target=target)` does.

        The target gets an end token if the tokenizer adds none, since the model would not learn to stop. It loses
        BERT's `[CLS]`, which is what its decoder starts with already.
        """
        import pyarrow as pa

        end = tokenizer.sep_token_id if tokenizer.eos_token_id is None else tokenizer.eos_token_id
        if end is None:
            raise BadData("the tokenizer has no end token, so the model could not learn where a target ends")
        start = tokenizer.cls_token_id if tokenizer.bos_token_id is None else None
        longest = options["max_target_length"]

        def encode(rows: Sequence[Row], classes: Sequence[Sequence[int]]) -> Encoded:
            sources = [options["source_prefix"] + row.texts[0] for row in rows]
            read = encodings(tokenizer, sources, None, options["max_length"])
            written = encodings(tokenizer, [row.texts[1] for row in rows], None, longest)
            targets = []
            for each in written:
                ids = each.ids[1:] if each.ids[:1] == [start] else each.ids
                targets.append(ids if ids[-1:] == [end] else [*ids[: longest - 1], end])
            cut = sum(bool(pair[0].overflowing or pair[1].overflowing) for pair in zip(read, written))
            columns = token_columns([each.ids for each in read], None)
            columns[TARGET_IDS] = pa.array(targets, pa.list_(pa.int32()))
            texts = {
                name: pa.array([row.texts[at] for row in rows], pa.string())
                for at, name in enumerate(("source", "target"))
            }
            return Encoded(columns, cut, {TARGETS: texts} if for_scoring else None)

        return encode

    def targets(self, batch: "Batch") -> "dict[str, np.ndarray]":
        """Return the targets' tokens, padded on the right. The models make the decoder's inputs from them."""
        import numpy as np

        rows = [row[TARGET_IDS] for row in batch.rows]
        labels = np.full((len(rows), batch.target_length or max(map(len, rows))), IGNORED_LABEL)
        for line, ids in zip(labels, rows):
            line[: len(ids)] = ids
        return {"labels": labels}

    def reduce_predictions(self, predictions: Any, labels: Any) -> Any:
        """Return each row's summed loss and number of target tokens, rows x 2, in place of the logits."""
        import torch

        logits = predictions[0] if isinstance(predictions, tuple) else predictions
        sums = [
            torch.nn.functional.cross_entropy(row.float(), own, reduction="sum", ignore_index=IGNORED_LABEL)
            for row, own in zip(logits, labels)
        ]
        return torch.stack([torch.stack(sums), (labels != IGNORED_LABEL).sum(1).to(sums[0].dtype)], dim=1)

    def scorer(self, channel: "Channel") -> Scorer:
        return GeneratedTextScorer(channel)

    def encode_inputs(self, loaded: LoadedModel, examples: Sequence[Example]) -> list[EncodedInput]:
        """Tokenize the texts behind the prefix of the training."""
        prefix = loaded.options.get("source_prefix") or ""
        return super().encode_inputs(loaded, [each._replace(text=prefix + each.text) for each in examples])

    def generate(self, loaded: LoadedModel, encoded: Sequence[EncodedInput]) -> list[Any]:
        """Return `{"generated_text"}` for each text, by default with the settings of the evaluation.

        Other settings are the model's own, from its `generation_config.json`.
        """
        made: list[Any] = [None] * len(encoded)
        recorded = {name: loaded.options.get(name) for name in ("max_new_tokens", "num_beams")}
        defaults = {name: value or self.options[name].default for name, value in recorded.items()}
        for positions, options in same_options(encoded):
            settings = {"do_sample": False, **defaults, **options}
            new = loaded.generate([encoded[at].rows[0] for at in positions], settings)
            for at, tokens in zip(positions, new):
                made[at] = {"generated_text": decoded(loaded.tokenizer.decode(tokens, skip_special_tokens=True))}
        return made


def decoded(text: str) -> str:
    """Return a generated text without the blank that some tokenizers put in front."""
    return text.strip()


class GeneratedTextScorer:
    """Scores the texts that were generated for the first sources, and the loss of all rows."""

    def __init__(self, channel: "Channel") -> None:
        from training.job.data.channels import read_texts

        options = channel.metadata.options
        sources, targets = read_texts(channel.folder / TARGETS, ("source", "target"))
        # In the order of the data, though the channel's rows are in the order of their lengths.
        rows: dict[str, list[int]] = {}
        numbers = channel.rows.numbers.tolist()
        for at in sorted(range(len(numbers)), key=numbers.__getitem__):
            rows.setdefault(sources[numbers[at]], []).append(at)
        share = len(channel.rows) / channel.metadata.rows
        count = round(min(options["generate_rows"], len(set(sources))) * share)
        self._first_sources = list(rows)[: max(count, 1)]
        self._references = [[targets[numbers[at]].strip() for at in rows[source]] for source in self._first_sources]
        self.prompts = [channel.rows[rows[source][0]]["input_ids"] for source in self._first_sources]
        self.generation_settings = {name: options[name] for name in ("max_new_tokens", "num_beams")}
        self._texts: list[str] = []

    def take_texts(self, texts: list[str]) -> None:
        self._texts = list(map(decoded, texts))

    def __call__(self, prediction: Any) -> dict[str, float]:
        # The loss replaces Trainer's, which is the mean of the batch means.
        loss_sum, tokens = prediction.predictions.astype("float64").sum(axis=0)
        return {"loss": float(loss_sum / tokens), **text_scores(self._texts, self._references)}

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return the first generated texts with their references, by file name."""
        return {"predictions.json": self.rows()[:MAX_TABLE_ROWS]} if self._texts else {}

    def rows(self) -> list[dict[str, Any]]:
        """Return each source for which a text was generated, all its references, and the generated text."""
        names = ("source", "prediction", "reference")
        return [dict(zip(names, each)) for each in zip(self._first_sources, self._texts, self._references)]


def text_scores(texts: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return BLEU, chrF and ROUGE-L of generated texts in percent, each text with one or more references.

    BLEU and chrF are sacrebleu's defaults over all texts together (Post 2018, https://aclanthology.org/W18-6319).
    ROUGE-L is the mean over the texts of the best over their references.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    most = max(map(len, references))
    # sacrebleu takes the first references of all texts, then the second ones. None stands for one that is missing.
    streams: Any = [[own[at] if at < len(own) else None for own in references] for at in range(most)]
    best = [max(rouge_l(text, each) for each in own) for text, own in zip(texts, references)]
    return {
        "bleu": float(BLEU().corpus_score(list(texts), streams).score),
        "chrf": float(CHRF().corpus_score(list(texts), streams).score),
        "rouge_l": 100.0 * sum(best) / len(best),
    }


def rouge_l(text: str, reference: str) -> float:
    """Return ROUGE-L of a text, 0 to 1: the F-measure of the longest common subsequence of words (Lin 2004).

    It equals rouge-score 0.1.2 without a stemmer, except that rouge-score drops all letters but a to z.
    """
    first, second = words(text), words(reference)
    common = longest_common_subsequence(first, second)
    return 2.0 * common / (len(first) + len(second)) if common else 0.0


def words(text: str) -> list[str]:
    """Return the runs of letters and digits of any script in lower case, with the marks that belong to letters."""
    kept = (each if each.isalnum() or unicodedata.category(each)[0] == "M" else " " for each in text.lower())
    return "".join(kept).split()


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence.

    The bits of an integer are a row of the usual table: Hyyrö 2004, "Bit-parallel LCS-length computation revisited".
    """
    matches: dict[str, int] = {}
    for at, word in enumerate(first):
        matches[word] = matches.get(word, 0) | 1 << at
    everything = (1 << len(first)) - 1
    row = everything
    for word in second:
        both = row & matches.get(word, 0)
        row = ((row + both) | (row - both)) & everything
    return len(first) - bin(row).count("1")
