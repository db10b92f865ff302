"""Read the lines that public frameworks print: steps, values and evaluations. Pure.

A log is read part by part: a progress bar rewrites its line, so one line may have many parts. `LogFormats` reads the
frameworks whose lines have steps, and `TrainerSteps` finds the steps of Trainer's dicts, which contain only the epoch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from training.contract.metric_expressions import number

# No two adjacent parts match the same digits, or the time would grow with the square of their number.
NUMBER = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf|nan)"
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08")
"""Terminal escapes and backspaces."""

Unit = Literal["update", "batch", "unknown"]
"""Kind of one step of a log: an update of the weights, a batch of the data loader, or not certain."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Content of one part of a line."""

    values: Mapping[str, float] = field(default_factory=dict)
    """Numbers by metric name."""
    step: int | None = None
    """Step as the log counts it; None if the part has no step."""
    done: int = 0
    """Steps that have ended."""
    unit: Unit = "unknown"
    """Kind of one step."""
    epochs: int = 0
    """Epochs that have begun and may end with a partial batch; 0 if every batch is full."""
    is_evaluation: bool = False
    """True if an evaluation has run since the previous step."""
    is_due: bool = True
    """False for one of the many states of a bar that need no point in MLflow."""
    bar_seconds: int | None = None
    """Time that a progress bar displays for this step, in whole seconds; None for other lines."""
    bar: int | None = None
    """Number of the progress bar; None for other lines. Times of two bars cannot be compared."""


_STANDARD_NAMES = {"lr": "learning_rate", "ppl": "perplexity"}
_EVALUATION_PREFIX = re.compile(r"(?:validation|valid|val)_")


def _values(entries: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Return numbers under the names with which our own jobs log them: `val_loss` is `eval_loss`."""
    values = {}
    for name, text in entries:
        prefix = _EVALUATION_PREFIX.match(name)
        bare = name[prefix.end() :] if prefix else name
        values[f"{'eval_' if prefix else ''}{_STANDARD_NAMES.get(bare, bare)}"] = float(text)
    return values


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

    A later block, of a second training, replaces the first. Nothing is known before the end of a block.
    """

    def __init__(self) -> None:
        self.total_steps = 0
        """Updates of the whole training; 0 if unknown."""
        self.batch_size = 0
        """Samples of one update, over all devices; 0 if unknown."""
        self._examples, self._accumulation = 0, 1
        self._block: dict[str, int] | None = None
        """Facts of a block that has not ended."""

    def read(self, part: str) -> None:
        """Read one part of a line."""
        if _ANNOUNCED_START in part:
            self.total_steps = self.batch_size = self._examples = 0
            self._block = {}
        elif self._block is not None:
            self._block |= {name: _integer(m[1]) for name, text in _ANNOUNCED_FACTS.items() if (m := text.search(part))}
            if "total_steps" in self._block:
                self.total_steps, self.batch_size = self._block["total_steps"], self._block.get("batch_size", 0)
                self._examples = self._block.get("examples", 0)
                self._accumulation = max(1, self._block.get("accumulation", 1))
                self._block = None

    @property
    def steps_per_epoch(self) -> int:
        """Updates of one epoch; 0 if unknown."""
        return math.ceil(self._examples / self.batch_size) if self.batch_size else 0

    def step_at(self, epoch: float) -> int | None:
        """Return the step at which Trainer logged this epoch; None if it is unknown.

        Trainer's epoch is the share of the data loader's batches. The last update of an epoch may have fewer of them.
        """
        if not self.steps_per_epoch or not math.isfinite(epoch) or not 0 <= epoch < 2**40:
            return None
        whole, share = int(epoch), epoch - int(epoch)
        batches = math.ceil(self._examples * self._accumulation / self.batch_size)
        return whole * self.steps_per_epoch + min(self.steps_per_epoch, round(share * batches / self._accumulation))

    def samples_after(self, steps: int) -> int | None:
        """Return the samples of the first `steps` updates. The last batch of an epoch may be smaller."""
        if not self.steps_per_epoch:
            return None
        epochs, rest = divmod(steps, self.steps_per_epoch)
        return epochs * self._examples + min(rest * self.batch_size, self._examples)


_BAR = re.compile(
    r"(?:^|(?<=\s))(?:(?P<description>[^|%]{1,80}?): +)?\d{1,3}%\|[^|]*\| *(?P<n>\d{1,12})/(?P<total>\d{1,12})"
    r" \[(?P<elapsed>(?:\d+:)?\d\d:\d\d)<[^,\]]*, *(?:\?|[\d.]+)?(?P<unit>[A-Za-z]+/s|s/[A-Za-z]+)"
    r"(?P<postfix>,[^\]]*)?\]"
)
_BAR_STEP_UNITS = re.compile(r"(?:it|batch|batches|step|steps)/s|s/(?:it|batch|batches|step|steps)")
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


def bar_of(part: str) -> Bar | None:
    """Return the progress bar in this part if it counts steps, else None."""
    match = _BAR.search(_ESCAPE.sub("", part)) if "%|" in part else None
    if match is None or not _BAR_STEP_UNITS.fullmatch(match["unit"]) or not int(match["n"]) <= int(match["total"]) > 0:
        return None
    return Bar(
        description=(match["description"] or "").strip(),
        n=int(match["n"]),
        total=int(match["total"]),
        elapsed_seconds=int(seconds(match["elapsed"])),
        values=_values(_BAR_VALUE.findall(match["postfix"] or "")),
    )


_NANOGPT_ITERATION = re.compile(rf"\biter (\d+): loss ({NUMBER}), time {NUMBER}ms\b")
_NANOGPT_EVALUATION = re.compile(rf"\bstep (\d+): train loss ({NUMBER}), val loss ({NUMBER})")
_NANOGPT_TOKENS = re.compile(r"^tokens per iteration will be: ([\d,]+)")
_NANOGPT_OVERRIDE = re.compile(r"^Overriding: (batch_size|block_size|gradient_accumulation_steps) = (\d+)$")
_WLM_N = rf"\s*({NUMBER})"
_WLM_BATCH = re.compile(
    rf"\| epoch\s+(\d+) \|\s*(\d+)/\s*(\d+) batches \| lr{_WLM_N} \| ms/batch{_WLM_N} \| loss{_WLM_N} \| ppl{_WLM_N}"
)
_WLM_EPOCH = re.compile(rf"\| end of epoch\s+(\d+) \| time:{_WLM_N}s \| valid loss{_WLM_N} \| valid ppl{_WLM_N}")
_WLM_TEST = re.compile(rf"\| End of training \| test loss{_WLM_N} \| test ppl{_WLM_N}")
_ACCELERATE_EVALUATION = re.compile(r"\bepoch \d+: (\{'[^{}]*\})")
_ACCELERATE_ENTRY = re.compile(rf"'([A-Za-z_][\w.-]{{0,80}})': (?:\w[\w.]*\()?({NUMBER})[,)}}\s]")
_BAR_EPOCH = re.compile(
    r"(?:train(?:ing)?[ :-]*)?epoch[ :]*\[?(\d+)(?: ?/ ?\d+)?\]?(?: \[?train(?:ing)?\]?)?", re.IGNORECASE
)
_BAR_TRAINING = re.compile(r"(?:train(?:ing)?|steps?|iterations?)?", re.IGNORECASE)
_BAR_EVALUATION = re.compile(r"(?:Validation|Testing)(?: DataLoader \d+)?")
_LIGHTNING_NAMES = {"train_loss": "loss", "train_loss_step": "loss", "train_loss_epoch": "train_loss"}


class LogFormats:
    """Reader of all formats. It is passed every part of a log, in order.

    The steps of a log come from one framework. A framework's own lines take precedence over progress bars, which any
    script may have.
    """

    def __init__(self, announcement: Announcement) -> None:
        self._announcement = announcement
        self._frameworks: set[str] = set()
        """Names of the frameworks whose own lines have shown a step."""
        self._nanogpt_settings: dict[str, int] = {}
        self._wlm_batches: int | None = None
        self._is_numbered = False
        """True once a bar was described as an epoch by its number."""
        self._totals: set[int] = set()
        """Totals of the bars without an epoch. If there are several, the bars cannot be told apart."""
        self._epoch, self._epochs, self._batches, self._batches_before = 1, 0, 0, 0
        """Number of the bar's epoch; epochs so far; batches of an epoch; batches of the epochs before."""
        self._percent: tuple[int, int] | None = None
        """Epoch and its share, in percent, of the last values."""
        self._evaluated: dict[str, float] = {}
        """Results of the last evaluation."""

    def read(self, part: str) -> list[Reading]:
        """Return the content of a part: nothing, one line, one bar, or a bar and the text that was printed behind it.

        Values of a bar come at most once per percent.
        """
        readings = []
        for framework in (self._nanogpt, self._word_language_model, self._accelerate):
            if reading := framework(part):
                if reading.step is not None:
                    self._frameworks.add(framework.__name__)
                readings = [reading if len(self._frameworks) < 2 else replace(reading, step=None)]
                break
        bar = None if self._frameworks else self._bar(part)
        return [bar, *readings] if bar else readings

    @property
    def logged_batch_size(self) -> int | None:
        """Samples of one step according to the log. None if it does not show them, 0 if they cannot be known.

        nanoGPT prints the settings that are not its defaults, and the tokens of an iteration.
        """
        settings = self._nanogpt_settings
        if {"batch_size", "gradient_accumulation_steps"} <= settings.keys():
            return settings["batch_size"] * settings["gradient_accumulation_steps"]
        if "tokens" not in settings:
            return None
        return settings["tokens"] // settings["block_size"] if settings.get("block_size") else 0

    def _nanogpt(self, part: str) -> Reading | None:
        """Read `iter 10: loss 1.2345, time 12.34ms, mfu 3.21%` and `step 250: train loss 1.2, val loss 1.3`.

        The evaluation of step N runs before iteration N; the line of iteration N is printed after it.
        """
        if match := _NANOGPT_ITERATION.search(part):
            step = int(match[1])
            return Reading(values={"loss": float(match[2])}, step=step, done=step + 1, unit="update")
        if match := _NANOGPT_EVALUATION.search(part):
            step, values = int(match[1]), {"train_loss": float(match[2]), "eval_loss": float(match[3])}
            return Reading(values=values, step=step, done=step, unit="update", is_evaluation=True)
        if match := _NANOGPT_OVERRIDE.match(part):
            self._nanogpt_settings[match[1]] = int(match[2])
        elif match := _NANOGPT_TOKENS.match(part):
            self._nanogpt_settings["tokens"] = _integer(match[1])
        return None

    def _word_language_model(self, part: str) -> Reading | None:
        """Read the lines of pytorch/examples' word_language_model, and of the many scripts that copied them.

        `| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 12.30 | loss  7.60 | ppl  2000.00`, and at the end of
        an epoch `| end of epoch   1 | time: 36.10s | valid loss  5.50 | valid ppl   244.69`. Batches count from 0, and
        every one has all columns of the data. The announced number of batches is rounded down: an epoch may end with
        one more batch of fewer rows, which only a line about it shows.
        """
        if match := _WLM_BATCH.search(part):
            self._wlm_batches = max(self._wlm_batches or 0, int(match[3]), int(match[2]) + 1)
            step = (int(match[1]) - 1) * self._wlm_batches + int(match[2])
            values = _values((("lr", match[4]), ("loss", match[6]), ("ppl", match[7])))
            return Reading(values=values, step=step, done=step + 1, unit="batch")
        if match := _WLM_EPOCH.search(part):
            end = None if self._wlm_batches is None else int(match[1]) * self._wlm_batches
            values = _values((("val_loss", match[3]), ("val_ppl", match[4])))
            return Reading(values=values, step=end, done=end or 0, unit="batch", is_evaluation=True)
        if match := _WLM_TEST.search(part):
            values = {"test_loss": float(match[1]), "test_perplexity": float(match[2])}
            return Reading(values=values, is_evaluation=True)
        return None

    def _accelerate(self, part: str) -> Reading | None:
        """Read an evaluation as accelerate's examples print it: `epoch 0: {'accuracy': 0.81, 'f1': 0.87}`.

        The line shows no step. It belongs to the step that the progress bar shows, if the script has one.
        """
        match = _ACCELERATE_EVALUATION.search(part)
        values = _values(_ACCELERATE_ENTRY.findall(match[1])) if match else {}
        evaluated = {f"eval_{name.removeprefix('eval_')}": value for name, value in values.items()}
        return Reading(values=evaluated, is_evaluation=True) if evaluated else None

    def _bar(self, part: str) -> Reading | None:
        """Read a progress bar: `Epoch 1/3:  12%|#2        | 60/500 [00:05<00:40, 10.9it/s, loss=0.69]`.

        Only bars that certainly show the training give a step: those with the announced number of steps, and those that
        are described as an epoch by its number. A bar with a loss behind its rate gives a step too, but what one step
        of it is, a batch or an epoch, is not certain.

        PyTorch Lightning's bar has `v_num` and counts epochs from 0. An empty one shows values of the epoch before.
        """
        bar = bar_of(part)
        if bar is None:
            return None
        if _BAR_EVALUATION.fullmatch(bar.description):
            return Reading(is_evaluation=True)
        unit: Unit = "unknown"
        epoch = 1
        if self._announcement.total_steps:
            unit = "update"
            if bar.total != self._announcement.total_steps or bar.description:
                return None
        elif match := _BAR_EPOCH.fullmatch(bar.description):
            self._is_numbered, unit = True, "batch"
            epoch = int(match[1]) + ("v_num" in bar.values)
        else:
            if "loss" not in bar.values or not _BAR_TRAINING.fullmatch(bar.description) or self._is_numbered:
                return None
            self._totals.add(bar.total)
            if len(self._totals) > 1:
                return None
        if epoch != self._epoch or not self._epochs:
            ended = max(epoch - self._epoch, 0)  # several in a resumed training
            self._batches_before += ended * (self._batches or bar.total)
            self._epoch, self._epochs, self._batches = epoch, self._epochs + 1, bar.total
        percent = (self._epochs, 100 * bar.n // bar.total)
        is_due, self._percent = percent != self._percent, percent
        values = bar.values if bar.n else self._evaluated
        if "v_num" in values:
            values = {_LIGHTNING_NAMES.get(name, name): value for name, value in values.items() if name != "v_num"}
        # Results of an evaluation stay in the bar.
        evaluated = {name: value for name, value in values.items() if name.startswith("eval_")}
        is_evaluation = bool(evaluated) and evaluated != self._evaluated
        self._evaluated = evaluated
        trained = {name: value for name, value in values.items() if name not in evaluated}
        step = self._batches_before + bar.n
        return Reading(
            values={**(trained if is_due else {}), **(evaluated if is_evaluation else {})},
            step=step,
            done=step,
            unit=unit,
            epochs=self._epochs,
            is_evaluation=is_evaluation,
            is_due=is_due,
            bar_seconds=bar.elapsed_seconds,
            bar=self._epochs,
        )


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
    """Converter from epochs to steps, for the dicts of one training by Transformers' Trainer.

    In order of precedence: the block that Trainer announces at log level `info`; else its progress bar, whose state
    after a dict is the exact step of that dict. Dicts without a bar are placed in proportion to the last known epoch.
    """

    def __init__(self, announcement: Announcement) -> None:
        self._announcement = announcement
        self._bar: Bar | None = None
        """Last state of the training's bar, the first one without a description: evaluations begin later."""
        self._known: tuple[int, float] | None = None
        """Step and epoch of the last dict whose step the bar has shown."""

    def read(self, part: str, awaited: float | None = None) -> int | None:
        """Read any part of a log. Return the step that the training's bar shows in it, or None.

        `awaited` is the epoch of the last training dict, if its step is not known yet.
        """
        bar = bar_of(part)
        if bar is None or bar.description:
            return None
        # An earlier bar may have been another one: the first after a dict is the training's.
        is_new = self._bar is None or (awaited is not None and self._known is None)
        if not is_new and self._bar and bar.total != self._bar.total:
            return None
        self._bar = bar
        if awaited is not None and awaited > 0 and bar.n:
            self._known = bar.n, awaited
        return bar.n

    def step_at(self, epoch: float) -> int | None:
        """Return the step of an epoch, rounded as the epoch is; None if no step is known."""
        if self._announcement.steps_per_epoch:
            return self._announcement.step_at(epoch)
        if self._known is None or not math.isfinite(epoch):
            return self._bar.n or None if self._bar and epoch > 0 else None
        step_known, epoch_known = self._known
        return min(max(step_known, round(epoch * step_known / epoch_known)), self.last_step or step_known)

    @property
    def last_step(self) -> int | None:
        """Step of the summary."""
        return self._announcement.total_steps or (self._bar.total if self._bar else None)
