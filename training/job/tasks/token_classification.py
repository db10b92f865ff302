"""Token classification: one tag for each word of a sentence, scored by the entities that the tags spell.

A sentence that is longer than a row is divided into windows. Each word is read in one of them: where it is farthest
from a cut. So no word is lost, and none is counted twice.

A row is the words joined by blanks, and the tokens of a word are found by their characters. So a tokenizer reads what
it reads in a plain text, whether or not it puts a blank before the first word (`add_prefix_space`).
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from training.job.data import IGNORED_LABEL
from training.job.processes.reporting import BadData
from training.job.tasks.checks import MissingValue, checked_label, checked_list, checked_text, from_json
from training.job.tasks.encodings import integers, token_columns
from training.job.tasks.inputs import BadInputs, EncodedInput, Example, TokenRow, fields, text
from training.job.tasks.task import (
    COMMONEST,
    F1,
    LOSS,
    ColumnNames,
    Encoded,
    Encoder,
    LoadedModel,
    Metric,
    Row,
    Scorer,
    Task,
)

if TYPE_CHECKING:
    import numpy as np

    from training.job.data.channels import Channel, ChannelMetadata
    from training.job.data.padding import Batch
    from training.job.weights.pretrained import Pretrained

OUTSIDE = "O"
"""Tag of a word that belongs to no entity."""
SCHEMES = {"IOB": "IB", "BIOES": "IBES", "BILOU": "IBLU", "BMES": "BMES"}
"""Letters before the type of an entity. IOB1 and IOB2 spell entities with the same letters, and are read the same."""
ROLES = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S"}
"""Role of a letter: begins an entity, continues one, ends one, or is one by itself."""
UNNAMED = "_"
"""Type of the entities whose tags have none, such as `B`. seqeval's name."""
SHARED = 4
"""Neighbouring windows share this part of their tokens: one of four."""
TAGS = "tags"
"""Column of the channel with the class number of each token; -100 for tokens that are not the first of a word, and for
words that are read in another window."""
SENTENCES, WINDOWS = "sentences.parquet", "windows.parquet"
MAX_TABLE_ROWS = 1_000
"""Most rows of the table of predictions. The scores include all sentences."""
WORDS = re.compile(r"[@#]?\w+(?:[^\w\s]+\w+)*|([^\w\s])\1*")
"""Words of a text: what blanks separate, without the punctuation at its ends."""

Span = tuple[int, int]
"""The first character of a word in its text, and one past the last."""


class Entity(NamedTuple):
    """An entity of a sentence."""

    kind: str
    """Its type, such as `PER`."""
    first: int
    """Number of its first word, from 0."""
    last: int
    """Number of its last word."""


def split_tag(tag: str) -> tuple[str, str]:
    """Return the letter and the type of a tag, such as B and PER; O has no type."""
    letter, _, kind = tag.partition("-")
    return letter, "" if tag == OUTSIDE else kind or UNNAMED


def entities(tags: Sequence[str]) -> list[Entity]:
    """Return the entities that the tags of a sentence spell, by the rules of conlleval and of seqeval's default mode.

    A word continues the entity before it if both have the same type, its tag is I or E, and the tag before is B or I.
    Any other tag but O begins an entity, so an I after O does.
    """
    found: list[Entity] = []
    before, kind = OUTSIDE, ""
    for at, tag in enumerate(tags):
        letter, own = split_tag(tag)
        role = ROLES.get(letter, OUTSIDE)
        if role in ("I", "E") and before in ("B", "I") and own == kind:
            found[-1] = found[-1]._replace(last=at)
        elif role != OUTSIDE:
            found.append(Entity(own, at, at))
        before, kind = role, own
    return found


class TokenClassification(Task):
    """Tags of words. A row of the data is a sentence, a row of the channel is a sentence or a window of one."""

    name = "token-classification"
    other_names = ("ner", "named-entity-recognition", "pos", "conll")
    row = "sentence"
    without_rows = "no sentences"
    classes = "many"
    cut = "divided"
    list_columns = (TAGS,)
    head = "AutoModelForTokenClassification"
    architectures = ("ForTokenClassification",)
    metrics = (
        F1,
        Metric("eval_precision", "precision", "percent", higher_is_better=True, best=100.0, decimals=2),
        Metric("eval_recall", "recall", "percent", higher_is_better=True, best=100.0, decimals=2),
        LOSS,
    )
    usual_columns: Mapping[tuple[str, ...], str] = {
        ("tokens", "ner_tags"): "task: token-classification",
        ("tokens",): "task: token-classification, and data.columns.tags",
    }
    inputs = ("tokens",)
    answer_fields = (("entities", "any"),)
    example: Mapping[str, str] = {"tokens": "Ada Lovelace was born in London."}
    pipeline = "token-classification"

    def columns(self, names: ColumnNames) -> dict[str, str]:
        return {names.tokens: "object", names.tags: "object"}

    def check_options(self, options: Any) -> None:
        """Raise ValueError for labels to skip: a row has a tag for each word, so no tag stands for the row."""
        if options.data.skip_labels is not None:
            raise ValueError(
                "data.skip_labels leaves out rows by their label, but a sentence has a tag for each word; to ignore "
                f"some tags, map them to O with data.label_map, in task {self.name}"
            )

    def check_classes(self, names: Sequence[str]) -> None:
        """Raise `BadData` unless the tags follow one scheme."""
        letters = {name: split_tag(name)[0] for name in names if name != OUTSIDE}
        if any(set(letters.values()) <= set(scheme) for scheme in SCHEMES.values()):
            return
        unknown = [name for name, letter in letters.items() if letter not in ROLES] or sorted(letters)
        listed = ", ".join(map(repr, unknown[:10])) + (" ..." if len(unknown) > 10 else "")
        if all(name.isdecimal() for name in names):
            raise BadData(f"the tags are class numbers ({listed}); name them in their order in data.labels")
        raise BadData(
            f"the tags {listed} follow none of the schemes {', '.join(SCHEMES)}, such as B-PER, I-PER, O. "
            "Rename them with data.label_map: S-NOUN: [NOUN] makes each word an entity, so that F1 is the accuracy, "
            "and I-PER: [PER] joins neighbours of the same tag"
        )

    def read(self, number: int, place: object, values: Sequence[Any], names: ColumnNames) -> Row:
        """Check that there are as many tags as words."""
        words, tags = (checked_list(place, name, value) for name, value in zip((names.tokens, names.tags), values))
        if len(words) != len(tags):
            raise BadData(
                f"{place}: column {names.tokens!r} has {len(words)} words, but {names.tags!r} has {len(tags)} tags"
            )
        if not words:
            raise MissingValue(f"{place}: column {names.tokens!r} is empty; leave the row out")
        words = [checked_text(place, names.tokens, word, may_be_blank=True) for word in words]
        return Row(
            number, (" ".join(words),), tuple(checked_label(place, names.tags, tag) for tag in tags), detail=words
        )

    def encoder(self, tokenizer: Any, options: Mapping[str, Any], for_scoring: bool) -> Encoder:
        """Encode sentences as windows. The first token of a word has its tag."""
        import pyarrow as pa

        length, sentences = options["max_length"], 0

        def encode(rows: Sequence[Row], classes: Sequence[Sequence[int]]) -> Encoded:
            nonlocal sentences
            words = [_joined(row.detail) for row in rows]
            made = [
                windows(encoding, spans, length)
                for encoding, (_, spans) in zip(_encodings(tokenizer, [text for text, _ in words]), words)
            ]
            numbered = [(at, window) for at, own in enumerate(made) for window in own]
            labels = [
                [classes[at][word] if word >= 0 else IGNORED_LABEL for word in each.words] for at, each in numbered
            ]
            integer_lists = pa.list_(pa.int32())
            columns = {
                **token_columns([window.ids for _, window in numbered], None),
                TAGS: pa.array(labels, integer_lists),
            }
            tables = {
                SENTENCES: {
                    "row": integers([row.number for row in rows]),
                    "words": pa.array([row.detail for row in rows], pa.list_(pa.string())),
                    "tags": pa.array(classes, integer_lists),
                },
                WINDOWS: {
                    "sentence": integers([sentences + at for at, _ in numbered]),
                    "words": pa.array(
                        [[word for word in each.words if word >= 0] for _, each in numbered], integer_lists
                    ),
                },
            }
            sentences += len(rows)
            return Encoded(columns, sum(len(own) > 1 for own in made), tables if for_scoring else None)

        return encode

    def no_rows(self, options: Mapping[str, Any], for_scoring: bool) -> str:
        return "have no word of which the tokenizer makes a token"

    def head_fields(self, pretrained: "Pretrained", metadata: "ChannelMetadata") -> dict[str, Any]:
        names = dict(enumerate(metadata.label_names))
        return {"num_labels": len(names), "id2label": names, "label2id": {name: at for at, name in names.items()}}

    def targets(self, batch: "Batch") -> "dict[str, np.ndarray]":
        import numpy as np

        labels = np.full_like(batch.input_ids, IGNORED_LABEL)
        for line, row, start in zip(labels, batch.rows, batch.starts):
            line[start : start + len(row[TAGS])] = row[TAGS]
        return {"labels": labels}

    def reduce_predictions(self, predictions: Any, labels: Any) -> Any:
        """Return the class and the loss of each token, rows x tokens x 2."""
        import torch

        logits = predictions[0] if isinstance(predictions, tuple) else predictions
        losses = torch.nn.functional.cross_entropy(
            logits.float().transpose(1, 2), labels, reduction="none", ignore_index=IGNORED_LABEL
        )
        return torch.stack([logits.argmax(dim=-1).to(losses.dtype), losses], dim=-1)

    def scorer(self, channel: "Channel") -> Scorer:
        return EntityScorer(channel)

    def encode_may_refuse(self, loaded: LoadedModel) -> bool:
        """Return False: any text can be read in windows."""
        return False

    def input_value(self, place: object, column: str, value: Any) -> Any:
        """Check a text or a list of words."""
        value = from_json(value)
        if not isinstance(value, list):
            return checked_text(place, column, value)
        return {"tokens": [checked_text(place, column, word, may_be_blank=True) for word in value]}

    def _example(self, location: str, value: object, options: Mapping[str, Any]) -> Example:
        """Return the words of a text, of a list of words, or of an object with `tokens`."""
        if isinstance(value, dict):
            location, value = f"{location}.tokens", fields(location, value, self.inputs)["tokens"]
        if not isinstance(value, list):
            whole = text(location, value, may_be_blank=False)
            return Example(location, whole, options=options, detail=[match.span() for match in WORDS.finditer(whole)])
        if not value:
            raise BadInputs(f"{location} is an empty list: give at least one word")
        joined, spans = _joined([text(f"{location}[{at}]", word) for at, word in enumerate(value)])
        return Example(location, joined, options=options, detail=spans)

    def encode_inputs(self, loaded: LoadedModel, examples: Sequence[Example]) -> list[EncodedInput]:
        """Tokenize the texts and cut long ones into windows. A text without tokens keeps a row without words."""
        encoded = []
        for example, encoding in zip(examples, _encodings(loaded.tokenizer, [each.text for each in examples])):
            made = windows(encoding, example.detail, loaded.max_length) or [Window(encoding.ids or [0], [])]
            rows = tuple(TokenRow(window.ids, None) for window in made)
            encoded.append(EncodedInput(example, rows, [window.words for window in made]))
        return encoded

    def outputs(self, loaded: LoadedModel, rows: Sequence[TokenRow]) -> list[Any]:
        """Return the class and its probability for each token of each row."""
        logits = loaded.forward(rows).logits.float()
        chosen, best = logits.argmax(dim=-1), logits.double().softmax(dim=-1).amax(dim=-1)
        width = logits.shape[1]
        spans = [slice(width - len(row.ids), width) if loaded.pads_left else slice(len(row.ids)) for row in rows]
        pairs = zip(chosen.tolist(), best.tolist(), spans)
        return [list(zip(numbers[span], scores[span])) for numbers, scores, span in pairs]

    def answers(self, loaded: LoadedModel, encoded: Sequence[EncodedInput], outputs: Sequence[Any]) -> list[Any]:
        """Return the entities of each input, with the fields of transformers' pipeline that aggregates words.

        `start` and `end` are characters of the text, or of the words joined by blanks. The score is the mean
        probability of the words' tags.
        """
        names, left = loaded.model.config.id2label, iter(outputs)
        made = []
        for each in encoded:
            spans = each.example.detail
            tags, scores = [OUTSIDE] * len(spans), [0.0] * len(spans)
            for words, tokens in zip(each.detail, left):
                for word, (number, score) in zip(words, tokens):
                    if word >= 0:
                        tags[word], scores[word] = names[number], score
            made.append({"entities": [_answer(each.example.text, spans, scores, *found) for found in entities(tags)]})
        return made


def _answer(whole: str, spans: Sequence[Span], scores: Sequence[float], kind: str, first: int, last: int) -> Any:
    start, end, score = spans[first][0], spans[last][1], sum(scores[first : last + 1]) / (last + 1 - first)
    return {"entity_group": kind, "score": score, "word": whole[start:end], "start": start, "end": end}


def _joined(words: Sequence[str]) -> tuple[str, list[Span]]:
    """Return the words joined by blanks, and the place of each."""
    spans, at = [], 0
    for word in words:
        spans.append((at, at + len(word)))
        at += len(word) + 1
    return " ".join(words), spans


def _encodings(tokenizer: Any, texts: Sequence[str]) -> Sequence[Any]:
    encodings: Sequence[Any] = tokenizer(list(texts), padding=False, truncation=False, verbose=False).encodings
    return encodings


class Window(NamedTuple):
    """A row of the channel."""

    ids: list[int]
    """Token ids, special tokens included."""
    words: list[int]
    """For each token, the number of the word whose first token it is and that is read here, and else -1."""


def windows(encoding: Any, spans: Sequence[Span], length: int | None) -> list[Window]:
    """Return the windows of a text of which at least one word is read, given the places of its words.

    A window has at most `length` tokens, including special ones. None: the whole text is one window.
    """
    ids = encoding.ids
    own = [at for at, sequence in enumerate(encoding.sequence_ids) if sequence is not None]
    if not own:
        return []
    before, tokens = own[0], own[-1] + 1 - own[0]
    room = tokens if length is None else max(length - (len(ids) - tokens), 1)
    step = room - room // SHARED
    starts = [0] if tokens <= room else list(range(0, tokens - room // SHARED, step))
    parts = [
        ids[:before] + ids[before + at : before + min(at + room, tokens)] + ids[before + tokens :] for at in starts
    ]
    made = [Window(part, [-1] * len(part)) for part in parts]
    for token, word in first_tokens(encoding.offsets[before : before + tokens], spans):
        window = min(token // step, len(starts) - 1)
        # The window before may have it, too: the word is read where it is farther from a cut.
        if window and starts[window - 1] + room - 1 - token >= token - starts[window]:
            window -= 1
        made[window].words[before + token - starts[window]] = word
    return [window for window in made if max(window.words) >= 0]


def first_tokens(offsets: Sequence[Span], spans: Sequence[Span]) -> Iterator[tuple[int, int]]:
    """Yield (number of a token, number of the word whose first token it is). Some words have no token."""
    token = 0
    for word, (start, end) in enumerate(spans):
        while token < len(offsets) and offsets[token][1] <= start:
            token += 1
        if token < len(offsets) and offsets[token][0] < end:
            yield token, word
            token += 1


class EntityScorer:
    """Computes the scores for Trainer, and keeps the last evaluation's tags for the tables."""

    def __init__(self, channel: "Channel") -> None:
        from training.job.data.channels import read_texts

        names = channel.metadata.label_names
        self._names = names
        self._numbers, self._words, tags = read_texts(channel.folder / SENTENCES, ("row", "words", "tags"))
        self._tags = [[names[number] for number in each] for each in tags]
        owners, words = read_texts(channel.folder / WINDOWS, ("sentence", "words"))
        self._windows = [(owners[number], words[number]) for number in channel.rows.numbers.tolist()]
        """Sentence of each row that is evaluated, and its words that are read there."""
        is_whole = len(self._windows) == len(owners)
        self._evaluated = list(range(len(tags))) if is_whole else sorted({owner for owner, _ in self._windows})
        self._predicted: dict[int, list[str]] = {}
        self._tables: dict[str, list[dict[str, Any]]] = {}

    def __call__(self, prediction: Any) -> dict[str, float]:
        labels, predictions = prediction.label_ids, prediction.predictions
        is_read = labels != IGNORED_LABEL
        # A word without a token is no part of an entity.
        self._predicted = {at: [OUTSIDE] * len(self._tags[at]) for at in self._evaluated}
        for (owner, words), line, own in zip(self._windows, predictions, is_read):
            for word, number in zip(words, line[own, 0].astype(int).tolist()):
                self._predicted[owner][word] = self._names[number]
        pairs = [(self._tags[at], self._predicted[at]) for at in self._evaluated]
        table = entity_rows(pairs)
        commonest = Counter(tag for actual, _ in pairs for tag in actual).most_common(1)[0][0]
        constant = entity_rows([(actual, [commonest] * len(actual)) for actual, _ in pairs])
        first = self._evaluated[:MAX_TABLE_ROWS]
        self._tables = {"per_entity.json": table, "predictions.json": [self._shown(at) for at in first]}
        # The mean over the words replaces Trainer's eval_loss, which is the mean of the batch means.
        return {
            **{name: table[0][name] for name in ("f1", "precision", "recall")},
            "loss": float(predictions[..., 1][is_read].astype("float64").mean()),
            f"f1{COMMONEST}": constant[0]["f1"],
        }

    def _shown(self, at: int) -> dict[str, Any]:
        words = self._words[at]
        listed = (_listed(words, tags) for tags in (self._tags[at], self._predicted[at]))
        return {"row": self._numbers[at], "text": " ".join(words), **dict(zip(("label", "prediction"), listed))}

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        return self._tables

    def rows(self) -> list[dict[str, Any]]:
        """Return the `tokens` of each sentence, and their tags: lists in `reference` and `prediction`."""
        return [
            {"tokens": self._words[at], "reference": self._tags[at], "prediction": self._predicted[at]}
            for at in self._evaluated
        ]


def _listed(words: Sequence[str], tags: Sequence[str]) -> str:
    """Return the entities of a sentence for people, such as `person: Ada Lovelace; location: London`."""
    return "; ".join(f"{kind}: {' '.join(words[first : last + 1])}" for kind, first, last in entities(tags))


def entity_rows(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[dict[str, Any]]:
    """Return the scores in percent of all entities together (micro), then of each type, as a table.

    `pairs` are the true and the predicted tags of each sentence. An entity is right if its type and its words are.
    """
    counts: tuple[Counter[str], Counter[str], Counter[str]] = (Counter(), Counter(), Counter())
    right, predicted, actual = counts
    for tags, guessed in pairs:
        expected, found = set(entities(tags)), set(entities(guessed))
        for counter, each in zip(counts, (expected & found, found, expected)):
            counter.update(entity.kind for entity in each)
    rows = [_scores("all", sum(right.values()), sum(predicted.values()), sum(actual.values()))]
    kinds = sorted({*predicted, *actual})
    return rows + [_scores(kind, right[kind], predicted[kind], actual[kind]) for kind in kinds]


def _scores(label: str, right: int, predicted: int, actual: int) -> dict[str, Any]:
    """Return a row of the table; a ratio without a denominator counts as 0."""
    return {
        "label": label,
        "precision": 100.0 * right / max(predicted, 1),
        "recall": 100.0 * right / max(actual, 1),
        "f1": 200.0 * right / max(predicted + actual, 1),
        "support": actual,
    }
