"""Read the lines that public frameworks print: steps, values and evaluations. Pure.

A log is read part by part: a progress bar rewrites its line, so one line may have many parts. `LogFormats` chooses the
format that gives the steps, and `TrainerSteps` finds the steps of Trainer's dicts, which contain only the epoch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from training.contract.metric_expressions import number

# No two adjacent parts match the same digits, or the time would grow with the square of their number.
NUMBER = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf|nan)"
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08")
"""Terminal escapes and backspaces."""

Unit = Literal["update", "batch", "unknown"]
"""Kind of one step of a log: an update of the weights, a batch of the data loader, or not certain."""

_STANDARD_NAMES = {"lr": "learning_rate", "ppl": "perplexity"}
_EVALUATION_PREFIXES = ("validation_", "valid_", "val_")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Content of one part of a line."""

    values: Mapping[str, float] = field(default_factory=dict)
    """Numbers by metric name."""
    step: int | None = None
    """Step as the log counts it; None if the part has no step."""
    steps_done: int | None = None
    """Steps that have ended; None if `step` of them have."""
    epochs: int = 0
    """Epochs that have begun and may end with a partial batch; 0 if every batch is full."""
    is_evaluation: bool = False
    """True if an evaluation has run since the previous step."""
    is_due: bool = True
    """False for one of the many states of a bar that need no point in MLflow."""
    bar_seconds: int | None = None
    """Time that a progress bar displays for this step, in whole seconds; None for other lines."""
    bar: int = 0
    """Number of the progress bar. Times of two bars cannot be compared."""

    @property
    def done(self) -> int:
        """Steps that have ended."""
        return (self.step or 0) if self.steps_done is None else self.steps_done


class Format(Protocol):
    """Reader of one framework's lines. It is passed every part of a log, in order."""

    unit: Unit
    """Kind of one step."""

    @property
    def logged_batch_size(self) -> int | None:
        """Samples of one step according to the log. None if it does not show them, 0 if they cannot be known."""

    def read(self, part: str) -> Reading | None:
        """Return the content of a part, or None for a part in another format.

        Values of a bar come at most once per percent.
        """


def _standard_name(name: str) -> str:
    """Return the name under which our own jobs log a metric: `val_loss` is `eval_loss`."""
    for prefix in _EVALUATION_PREFIXES:
        if name.startswith(prefix):
            return f"eval_{_STANDARD_NAMES.get(name[len(prefix) :], name[len(prefix) :])}"
    return _STANDARD_NAMES.get(name, name)


def _of_evaluation(values: Mapping[str, float]) -> dict[str, float]:
    return {name if name.startswith("eval_") else f"eval_{name}": value for name, value in values.items()}


def _integer(text: str) -> int:
    return int(text.replace(",", ""))


_ANNOUNCED_START = "***** Running training *****"
_ANNOUNCED_FACTS = {
    "examples": re.compile(r"  Num examples = ([\d,]{1,20})$"),
    "batch_size": re.compile(r"  Total train batch size \(w\. parallel, distributed & accumulation\) = ([\d,]{1,20})$"),
    "accumulation": re.compile(r"  Gradient Accumulation steps = ([\d,]{1,20})$"),
    "total_steps": re.compile(r"  Total optimization steps = ([\d,]{1,20})$"),
}


class Announcement:
    """Facts in the block that Trainer and accelerate's examples log before the first step.

    ***** Running training *****
      Num examples = 100
      Total train batch size (w. parallel, distributed & accumulation) = 16
      Gradient Accumulation steps = 2
      Total optimization steps = 14

    A later block, of a second training, replaces the first.
    """

    def __init__(self) -> None:
        self._facts: dict[str, int] = {}
        self._is_open = False

    def read(self, part: str) -> None:
        """Read one part of a line."""
        if _ANNOUNCED_START in part:
            self._facts, self._is_open = {}, True
        elif self._is_open:
            for name, pattern in _ANNOUNCED_FACTS.items():
                if match := pattern.search(part):
                    self._facts[name] = _integer(match[1])
                    self._is_open = name != "total_steps"

    @property
    def total_steps(self) -> int | None:
        """Updates of the whole training."""
        return None if self._is_open else self._facts.get("total_steps") or None

    @property
    def batch_size(self) -> int | None:
        """Samples of one update, over all devices."""
        return None if self._is_open else self._facts.get("batch_size") or None

    @property
    def steps_per_epoch(self) -> int | None:
        """Updates of one epoch."""
        if not self.batch_size or not self._facts.get("examples"):
            return None
        return math.ceil(self._facts["examples"] / self.batch_size)

    def step_at(self, epoch: float) -> int | None:
        """Return the step at which Trainer logged this epoch.

        Trainer's epoch is the share of the data loader's batches. The last update of an epoch may have fewer of them.
        """
        per_epoch = self.steps_per_epoch
        if per_epoch is None or not math.isfinite(epoch) or not 0 <= epoch < 2**40:
            return None
        whole, share = int(epoch), epoch - int(epoch)
        accumulation = max(1, self._facts.get("accumulation", 1))
        batches = math.ceil(self._facts["examples"] * accumulation / (self.batch_size or 1))
        return whole * per_epoch + min(per_epoch, round(share * batches / accumulation))

    def samples_after(self, steps: int) -> int | None:
        """Return the samples of the first `steps` updates. The last batch of an epoch may be smaller."""
        per_epoch, batch_size = self.steps_per_epoch, self.batch_size
        if per_epoch is None or batch_size is None:
            return None
        epochs, rest = divmod(steps, per_epoch)
        return epochs * self._facts["examples"] + min(rest * batch_size, self._facts["examples"])


_NANOGPT_ITERATION = re.compile(rf"\biter (\d+): loss ({NUMBER}), time {NUMBER}ms\b")
_NANOGPT_EVALUATION = re.compile(rf"\bstep (\d+): train loss ({NUMBER}), val loss ({NUMBER})")
_NANOGPT_TOKENS = re.compile(r"^tokens per iteration will be: ([\d,]+)")
_NANOGPT_OVERRIDE = re.compile(r"^Overriding: (batch_size|block_size|gradient_accumulation_steps) = (\d+)$")


class NanoGpt:
    """nanoGPT's lines: `iter 10: loss 1.2345, time 12.34ms, mfu 3.21%` and `step 250: train loss 1.2, val loss 1.3`.

    The evaluation of step N runs before iteration N; the line of iteration N is printed after it. Every batch is full.
    """

    unit: Unit = "update"

    def __init__(self) -> None:
        self._settings: dict[str, int] = {}
        self._tokens: int | None = None

    @property
    def logged_batch_size(self) -> int | None:
        """Sequences per iteration, from the settings that the script prints. Its defaults are not in the log."""
        settings = self._settings
        if {"batch_size", "gradient_accumulation_steps"} <= settings.keys():
            return settings["batch_size"] * settings["gradient_accumulation_steps"]
        if self._tokens is None:
            return None
        return self._tokens // settings["block_size"] if settings.get("block_size") else 0

    def read(self, part: str) -> Reading | None:
        if match := _NANOGPT_ITERATION.search(part):
            step = int(match[1])
            return Reading(values={"loss": float(match[2])}, step=step, steps_done=step + 1)
        if match := _NANOGPT_EVALUATION.search(part):
            values = {"train_loss": float(match[2]), "eval_loss": float(match[3])}
            return Reading(values=values, step=int(match[1]), is_evaluation=True)
        if match := _NANOGPT_OVERRIDE.match(part):
            self._settings[match[1]] = int(match[2])
        elif match := _NANOGPT_TOKENS.match(part):
            self._tokens = _integer(match[1])
        return None


_WLM_N = rf"\s*({NUMBER})"
_WLM_BATCH = re.compile(
    rf"\| epoch\s+(\d+) \|\s*(\d+)/\s*(\d+) batches \| lr{_WLM_N} \| ms/batch{_WLM_N} \| loss{_WLM_N} \| ppl{_WLM_N}"
)
_WLM_EPOCH = re.compile(rf"\| end of epoch\s+(\d+) \| time:{_WLM_N}s \| valid loss{_WLM_N} \| valid ppl{_WLM_N}")
_WLM_TEST = re.compile(rf"\| End of training \| test loss{_WLM_N} \| test ppl{_WLM_N}")


class WordLanguageModel:
    """Lines of pytorch/examples' word_language_model, and of the many scripts that copied them.

    `| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 12.30 | loss  7.60 | ppl  2000.00`, and at the end of an
    epoch `| end of epoch   1 | time: 36.10s | valid loss  5.50 | valid ppl   244.69`. Batches count from 0, and every
    one has all columns of the data. The announced number of batches is rounded down: an epoch may end with one more
    batch of fewer rows, which only a line about it shows.
    """

    unit: Unit = "batch"
    logged_batch_size = None

    def __init__(self) -> None:
        self._batches: int | None = None
        """Batches of an epoch."""

    def read(self, part: str) -> Reading | None:
        if match := _WLM_BATCH.search(part):
            self._batches = max(self._batches or 0, int(match[3]), int(match[2]) + 1)
            step = (int(match[1]) - 1) * self._batches + int(match[2])
            values = {"learning_rate": match[4], "loss": match[6], "perplexity": match[7]}
            return Reading(values=_floats(values), step=step, steps_done=step + 1)
        if match := _WLM_EPOCH.search(part):
            end = None if self._batches is None else int(match[1]) * self._batches
            values = {"eval_loss": match[3], "eval_perplexity": match[4]}
            return Reading(values=_floats(values), step=end, is_evaluation=True)
        if match := _WLM_TEST.search(part):
            return Reading(values=_floats({"test_loss": match[1], "test_perplexity": match[2]}), is_evaluation=True)
        return None


def _floats(texts: dict[str, str]) -> dict[str, float]:
    return {name: float(text) for name, text in texts.items()}


_KERAS_EPOCH = re.compile(r"^Epoch (\d+)/(\d+)\s*$")
_KERAS_LINE = re.compile(r"^\s*(\d+)/(\d+) (?:\[[=>.]+\] - |[━╸╺ ]+|- )(?:ETA: )?(?:\d+s|\d+:\d\d)\b")
_KERAS_VALUE = re.compile(rf" - (?!ETA:)([A-Za-z_]\w{{0,80}}): ({NUMBER})")


class Keras:
    """Keras' progress lines, of versions 2 and 3.

    An epoch begins with `Epoch 1/3`. Then come lines such as `938/938 [=====] - 3s 3ms/step - loss: 0.2 - val_loss:
    0.1`, or `938/938 - 3s - loss: 0.2` with `verbose=2`. A line that does not continue the epoch's count
    belongs to `evaluate`.
    """

    unit: Unit = "batch"
    logged_batch_size = None

    def __init__(self) -> None:
        self._epoch = 0
        """The current epoch, from 1; 0 before the first."""
        self._total: int | None = None
        """Batches of an epoch."""
        self._batch = 0
        """Last batch of the current epoch."""
        self._recorded: tuple[int, int] | None = None
        """Epoch and share of the epoch, in percent, of the last values."""

    def read(self, part: str) -> Reading | None:
        text = _ESCAPE.sub("", part)
        if match := _KERAS_EPOCH.match(text):
            self._epoch, self._batch = int(match[1]), 0
            return None
        match = _KERAS_LINE.match(text)
        if match is None or not self._epoch or not 0 < int(match[2]) < 2**40:
            return None
        batch, total = int(match[1]), int(match[2])
        values = {_standard_name(name): float(text) for name, text in _KERAS_VALUE.findall(text)}
        self._total = self._total or total
        if total != self._total or batch < self._batch:  # of `evaluate`, whose last line has the result
            return Reading(values=_of_evaluation(values) if batch == total else {}, is_evaluation=True)
        self._batch = batch
        has_evaluation = any(name.startswith("eval_") for name in values)
        share = (self._epoch, 100 * batch // total)
        is_due = share != self._recorded or has_evaluation
        self._recorded = share
        return Reading(
            values=values if is_due else {},
            step=(self._epoch - 1) * total + batch,
            epochs=self._epoch,
            is_evaluation=has_evaluation,
            is_due=is_due,
        )


_BAR = re.compile(
    r"(?:^|(?<=\s))(?:(?P<description>[^|%]{1,80}?): +)?\d{1,3}%\|[^|]*\| *(?P<n>\d{1,12})/(?P<total>\d{1,12})"
    r" \[(?P<elapsed>(?:\d+:)?\d\d:\d\d)<[^,\]]*, *(?:\?|[\d.]+)?(?P<unit>[A-Za-z]+/s|s/[A-Za-z]+)"
    r"(?P<postfix>,[^\]]*)?\]"
)
_BAR_STEP_UNITS = re.compile(r"(?:it|batch|batches|step|steps)/s|s/(?:it|batch|batches|step|steps)")
_BAR_EPOCH = re.compile(
    r"(?:train(?:ing)?[ :-]*)?epoch[ :]*\[?(\d+)(?: ?/ ?\d+)?\]?(?: \[?train(?:ing)?\]?)?", re.IGNORECASE
)
_BAR_TRAINING = re.compile(r"(?:train(?:ing)?|steps?|iterations?)?", re.IGNORECASE)
_BAR_VALUE = re.compile(rf", ?([A-Za-z_][\w/]{{0,80}})=({NUMBER})(?=[,\]]|$)")


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One state of a progress bar."""

    description: str
    n: int
    total: int
    elapsed_seconds: int
    values: dict[str, float]
    """Numbers behind the rate, by standard name."""

    @property
    def percent(self) -> int:
        """Share that is done, in whole percent."""
        return 100 * self.n // self.total


def bar_of(part: str) -> Bar | None:
    """Return the progress bar in this part if it counts steps, else None."""
    match = _BAR.search(_ESCAPE.sub("", part)) if "%|" in part else None
    if match is None or not _BAR_STEP_UNITS.fullmatch(match["unit"]):
        return None
    n, total = int(match["n"]), int(match["total"])
    if n > total or not total:
        return None
    values = {_standard_name(name): float(text) for name, text in _BAR_VALUE.findall(match["postfix"] or "")}
    return Bar(
        description=(match["description"] or "").strip(),
        n=n,
        total=total,
        elapsed_seconds=int(seconds(match["elapsed"])),
        values=values,
    )


def split_after_bar(part: str) -> tuple[str, str]:
    """Return a part up to the end of its progress bar, and the text that the script printed behind the bar."""
    match = _BAR.search(part) if "%|" in part else None
    return (part[: match.end()], part[match.end() :]) if match else (part, "")


class TqdmBars:
    """Progress bars of tqdm: `Epoch 1/3:  12%|#2        | 60/500 [00:05<00:40, 10.9it/s, loss=0.69]`.

    Only bars that certainly show the training give a step: those with the announced number of steps, and those that are
    described as an epoch by its number. A bar with a loss behind its rate gives a step too, but what one step of it is,
    a batch or an epoch, is not certain.
    """

    def __init__(self, announcement: Announcement) -> None:
        self._announcement = announcement
        self.unit: Unit = "unknown"
        self.logged_batch_size = None
        self._epochs = EpochBars()
        self._single: int | None = None
        """Total of the only bar without an epoch; 0 once there are several, which cannot be told apart."""
        self._recorded = -1

    def read(self, part: str) -> Reading | None:
        bar = bar_of(part)
        if bar is None:
            return None
        if total := self._announcement.total_steps:
            self.unit = "update"
            return self._reading(bar, bar.n, 0) if bar.total == total and not bar.description else None
        if match := _BAR_EPOCH.fullmatch(bar.description):
            self.unit = "batch"
            step = self._epochs.step(int(match[1]), bar)
            return self._reading(bar, step, self._epochs.count, self._epochs.count)
        if "loss" not in bar.values or not _BAR_TRAINING.fullmatch(bar.description) or self._epochs.count:
            return None
        if self._single not in (None, bar.total):
            self._single = 0
            return None
        self._single = bar.total
        return self._reading(bar, bar.n, 1)

    def _reading(self, bar: Bar, step: int, epochs: int, number: int = 0) -> Reading:
        key = 1000 * number + bar.percent
        is_due, self._recorded = key != self._recorded, key
        return Reading(
            values=bar.values if is_due else {},
            step=step,
            epochs=epochs,
            is_due=is_due,
            bar_seconds=bar.elapsed_seconds,
            bar=number,
        )


class EpochBars:
    """Position in a training that has a bar for each epoch."""

    def __init__(self, first: int = 1) -> None:
        """`first` is the number of the first epoch. A training that begins with epoch 0 is read correctly too."""
        self._epoch, self._total, self._before = first, 0, 0
        self.count = 0
        """Bars so far."""

    def step(self, epoch: int, bar: Bar) -> int:
        """Return the step over all epochs, for a bar of the epoch with this number."""
        if epoch != self._epoch or not self.count:
            self._before += max(epoch - self._epoch, 0) * (self._total or bar.total)  # a resumed training begins later
            self._epoch, self.count = epoch, self.count + 1
        self._total = bar.total
        return self._before + bar.n


_LIGHTNING_EPOCH = re.compile(r"Epoch (\d+)")
_LIGHTNING_EVALUATION = re.compile(r"Validation(?: DataLoader \d+)?|Testing(?: DataLoader \d+)?")
_LIGHTNING_OLD_EVALUATION = "Validating"
"""Description of the evaluation's bar in old versions, whose `Epoch` bar also counts the evaluation's batches."""
_LIGHTNING_NAMES = {"train_loss": "loss", "train_loss_step": "loss", "train_loss_epoch": "train_loss"}


class Lightning:
    """PyTorch Lightning's bar: `Epoch 0:  12%|#2   | 60/500 [00:05<00:40, 10.9it/s, v_num=0, train_loss=0.693]`.

    Epochs count from 0. The values of the last evaluation stay in the bar, so they are read only when they change.
    Lightning shows each batch twice: with the values of the batch before, and with its own. An empty bar shows the
    epoch before.
    """

    unit: Unit = "batch"
    logged_batch_size = None

    def __init__(self) -> None:
        self._epochs = EpochBars(first=0)
        self._evaluated: dict[str, float] = {}
        self._recorded = self._step = -1
        self._trained: dict[str, float] = {}
        self._is_lightning = False
        self._counts_evaluation = False

    def read(self, part: str) -> Reading | None:
        bar = bar_of(part)
        if bar is None:
            return None
        self._is_lightning = self._is_lightning or "v_num" in bar.values
        self._counts_evaluation = self._counts_evaluation or bar.description == _LIGHTNING_OLD_EVALUATION
        if self._is_lightning and _LIGHTNING_EVALUATION.fullmatch(bar.description):
            return Reading(is_evaluation=True)
        match = _LIGHTNING_EPOCH.fullmatch(bar.description)
        if not match or not self._is_lightning or not bar.n:
            return None
        return self._reading(bar, self._epochs.step(int(match[1]), bar))

    def _reading(self, bar: Bar, step: int) -> Reading:
        values = {_LIGHTNING_NAMES.get(name, name): value for name, value in bar.values.items() if name != "v_num"}
        evaluated = {name: value for name, value in values.items() if name.startswith("eval_")}
        training = {name: value for name, value in values.items() if name not in evaluated}
        number = self._epochs.count
        key = 1000 * number + bar.percent
        is_own = step == self._step or training != self._trained
        is_due, is_new = key != self._recorded and is_own, evaluated != self._evaluated
        self._step, self._trained, self._evaluated = step, training, evaluated
        self._recorded = key if is_due else self._recorded
        return Reading(
            values={**(training if is_due else {}), **(evaluated if is_new else {})},
            step=None if self._counts_evaluation else step,
            epochs=number,
            is_evaluation=is_new,
            is_due=is_due,
            bar_seconds=bar.elapsed_seconds,
            bar=number,
        )


_ACCELERATE_EVALUATION = re.compile(r"\bepoch \d+: (\{'[^{}]*\})")
_ACCELERATE_ENTRY = re.compile(rf"'([A-Za-z_][\w.-]{{0,80}})': (?:\w[\w.]*\()?({NUMBER})[,)}}\s]")


class Accelerate:
    """Evaluations as accelerate's examples print them: `epoch 0: {'accuracy': 0.81, 'f1': 0.87}`.

    The line shows no step. It belongs to the step that the progress bar shows, if the script has one.
    """

    unit: Unit = "unknown"
    logged_batch_size = None

    def read(self, part: str) -> Reading | None:
        match = _ACCELERATE_EVALUATION.search(part)
        values = {name: float(text) for name, text in _ACCELERATE_ENTRY.findall(match[1])} if match else {}
        return Reading(values=_of_evaluation(values), is_evaluation=True) if values else None


FORMATS: tuple[type[Format], ...] = (NanoGpt, WordLanguageModel, Keras, Lightning, Accelerate)
"""Formats that can be recognized by their own lines. Progress bars, which any script may have, come after them."""


class LogFormats:
    """Reader of all formats. The steps of a log come from one format."""

    def __init__(self, announcement: Announcement) -> None:
        self._bars = TqdmBars(announcement)
        self._formats: tuple[Format, ...] = (*(make() for make in FORMATS), self._bars)
        self.source: Format | None = None
        """Format that gives the steps."""
        self.is_ambiguous = False
        """True if two formats give steps. The later lines then have none."""

    def read(self, part: str) -> Reading | None:
        """Return the content of a part by the first format that reads it, or None."""
        for each in self._formats:
            if reading := each.read(part):
                return self._from(each, reading)
        return None

    def _from(self, format: Format, reading: Reading) -> Reading:
        if reading.step is None:
            return reading
        if self.source is None or self.source is self._bars:
            self.source = format
        elif format is not self.source:
            if format is self._bars:  # a script may show a bar beside its own lines, which have the step too
                return replace(reading, step=None, values={})
            self.is_ambiguous = True
        return replace(reading, step=None) if self.is_ambiguous else reading


_TRAINER_NAME = r"[A-Za-z_][\w.-]{0,80}(?:/\w[\w.-]{0,80})?"
# Numbers are bare, quoted (from transformers 5 on), or wrapped in their type (np.float64(0.5), tensor(0.5)).
_TRAINER_ENTRY = re.compile(rf"'({_TRAINER_NAME})': (?:'({NUMBER})'|(?:\w[\w.]*\()?({NUMBER})[,)}}\s])")
_TABLE_HEADER = re.compile(r"\*{5} (\w+) metrics \*{5}")
_TABLE_ROW = re.compile(rf"  ({_TRAINER_NAME}) +=  *(?:((?:\d+ days?, )?\d+:\d\d:\d\d(?:\.\d+)?)|({NUMBER}))$")

_NOT_A_METRIC = "total_flos"
TablePart = Literal["header", "row"]


def trainer_values(text: str) -> dict[str, float]:
    """Return the numbers of a dict that Trainer logged. Only these dicts contain the epoch."""
    # Not an expression such as \{'.*\}: its time grows with the square of a line that repeats {'.
    start, end = text.find("{'"), text.rfind("}")
    entries = text[start : end + 1] if start >= 0 else ""
    if "'epoch': " not in entries:
        return {}
    values = {name: number(quoted or bare) for name, quoted, bare in _TRAINER_ENTRY.findall(entries)}
    return {name: value for name, value in values.items() if value is not None and name != _NOT_A_METRIC}


def table_part(text: str) -> tuple[TablePart, str, float] | None:
    """Parse a line of a table that `Trainer.log_metrics` printed: its header, or the name and value of a row.

    Durations (`0:00:12.34`) are converted to seconds. Values that are not plain numbers, such as `1737GF`, are omitted.
    """
    if header := _TABLE_HEADER.search(text):
        return "header", header[1], math.nan
    row = _TABLE_ROW.match(text)
    if row is None or row[1] == _NOT_A_METRIC:
        return None
    value = seconds(row[2]) if row[2] else number(row[3])
    return None if value is None else ("row", row[1], value)


def seconds(duration: str) -> float:
    """Convert a duration such as `1 day, 2:03:04.5` to seconds. It has no sign and may have no hours."""
    days, _, clock = duration.rpartition(", ")
    total = 0.0
    for part in clock.split(":"):
        total = 60 * total + float(part)
    return total + (86_400 * int(days.split()[0]) if days else 0)


class TrainerSteps:
    """Converter from epochs to steps, for the dicts of Transformers' Trainer. Pass every part of the log to `read`.

    In order of precedence: the block that Trainer announces at log level `info`; else its progress bar, whose state
    after a dict is the exact step of that dict. Dicts without a bar are placed in proportion to the last known epoch.
    """

    def __init__(self, announcement: Announcement) -> None:
        self._announcement = announcement
        self._total: int | None = None
        """Steps of the training's bar."""
        self._known: tuple[int, float] | None = None
        """Step and epoch of the last dict whose step the bar has shown."""
        self._awaited: float | None = None
        """Epoch of a training dict whose step the next state of the bar shows."""
        self._shown: Bar | None = None
        """Last state of the first bar, which is the training's: bars of evaluations begin later."""

    def watch(self, part: str) -> None:
        """Remember the state of the training's bar, for a training that logs no loss."""
        bar = bar_of(part)
        if bar and not bar.description and bar.total == (self._shown.total if self._shown else bar.total):
            self._shown = bar

    def read(self, part: str) -> int | None:
        """Read a part that is not a dict. Return the step of the last dict if the part shows it."""
        bar = bar_of(part) if self._awaited is not None else None
        if bar is None or bar.description or bar.total != (self._total or bar.total):
            return None
        assert self._awaited is not None
        if self._awaited > 0 and bar.n:
            self._known = bar.n, self._awaited
        self._total, self._awaited = bar.total, None
        return bar.n

    def expect(self, epoch: float) -> None:
        """Take the next state of the bar for the step of a training dict at this epoch."""
        self._awaited = epoch

    def step_at(self, epoch: float) -> int | None:
        """Return the step of an epoch; None if it is not certain."""
        if self._announcement.steps_per_epoch:
            return self._announcement.step_at(epoch)
        return self._known[0] if self._known and epoch == self._known[1] else None

    def estimate_at(self, epoch: float) -> int | None:
        """Return the step of an epoch, rounded as the epoch is; None if no step is known."""
        if (step := self.step_at(epoch)) is not None:
            return step
        if not self._known:
            return self._shown_at(epoch)
        step_known, epoch_known = self._known
        return min(max(step_known, round(epoch * step_known / epoch_known)), self._total or step_known)

    @property
    def last_step(self) -> int | None:
        """Step of the summary."""
        return self._announcement.total_steps or self._total or (self._shown.total if self._shown else None)

    def restart(self) -> None:
        """Forget a training that has ended: another one follows in the same log."""
        self._total = self._known = self._awaited = self._shown = None

    def _shown_at(self, epoch: float) -> int | None:
        """Return the step that the bar shows at an epoch. It may be drawn one step late."""
        if self._shown is None or self._shown.n == 0 or epoch <= 0:
            return None
        bar, epochs = self._shown, max(1, round(self._shown.total * epoch / self._shown.n))
        step = round(epoch * bar.total / epochs)
        return step if bar.total % epochs == 0 and step == bar.n + 1 else bar.n
