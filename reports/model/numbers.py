"""Numbers, lists, labels and addresses as text, written the same way in every report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit, urlunsplit

from judging.intervals import Interval
from judging.summaries import gain_percent
from training.contract.plain_text import counted as counted

TOO_FEW = "too few repeats"
"""Text of an interval that says nothing."""
NONE = "–"
"""Text of a missing value."""


def figure(value: float | None) -> str:
    """Return a number to three significant digits, thousands separated: 0.0123, 4.56, 78.9, 12,300."""
    if value is None or math.isnan(value):
        return NONE
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size >= 99.95:  # 100 after rounding
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 9.995 else f"{value:.2f}" if size >= 0.9995 or value == 0 else f"{value:.3g}"


def plain_number(value: float) -> str:
    """Return a count (an `int`) with all its digits, and any other number to three significant digits."""
    return f"{value:,}" if isinstance(value, int) else figure(value)


def factor(ratio: float) -> str:
    """Return a factor with two decimals, so factors in one sentence can be compared: 0.60, 1.20.

    A factor of 10 or more, or below 0.095, has three significant digits: 12.3, 0.0123.
    """
    return figure(ratio) if ratio >= 10 or ratio < 0.095 else f"{ratio:.2f}"


def score(value: float | None) -> str:
    """Return a loss or a score to three decimals."""
    return f"{value:.3f}" if value is not None and math.isfinite(value) else NONE


def money(usd: float | None) -> str:
    """Return US dollars: 0.0123, 4.56, 1,234.50."""
    return NONE if usd is None or math.isnan(usd) else f"{usd:.4f}" if usd < 0.1 else f"{usd:,.2f}"


def rate(value: float) -> str:
    """Return a learning rate: 0.00005 -> 5e-5."""
    if not math.isfinite(value):
        return NONE
    mantissa, _, exponent = f"{value:.3g}".partition("e")
    if not exponent and 0 < abs(value) < 0.01:
        mantissa, _, exponent = f"{value:.2e}".partition("e")
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def durations(*seconds: float) -> list[str]:
    """Return durations in the unit that fits the shortest one: 41 s, 24 min, 6.5 h."""
    shortest = min(seconds)
    unit, name = (1, "s") if shortest < 600 else (60, "min") if shortest < 7200 else (3600, "h")
    return [f"{figure(each / unit)} {name}" for each in seconds]


def signed(value: float) -> str:
    """Return a difference between scores with its sign."""
    return f"{value:+.3f}".replace("-", "−")


def signed_percent(ratio: float) -> str:
    """Return a ratio as a signed change: 1.25 -> +25 %."""
    gain = gain_percent(ratio)
    return f"{gain:+z,.{_decimals(gain)}f} %".replace("-", "−")


def signed_interval(ratio: Interval) -> str:
    """Return an interval as signed changes: `−12 % to +5.0 %`, or `too few repeats` if it says nothing."""
    return f"{signed_percent(ratio.low)} to {signed_percent(ratio.high)}" if ratio.is_informative else TOO_FEW


def percent(ratio: float) -> str:
    """Return the size of a ratio's change in percent: 0.8 -> `20`."""
    gain = abs(gain_percent(ratio))
    return f"{gain:,.{_decimals(gain)}f}"


def change(ratio: float) -> str:
    """Return a ratio as a change in words: 0.8 -> `20 % fewer`."""
    return f"{percent(ratio)} % {_direction(ratio)}"


def change_interval(ratio: Interval) -> str:
    """Return an interval in words: `12 % to 24 % fewer`, or `3 % fewer to 5 % more` if it includes 1.

    An interval that says nothing is `too few repeats`.
    """
    low, high = ratio.low, ratio.high
    if not ratio.is_informative:
        return TOO_FEW
    if _direction(low) != _direction(high):
        return f"{change(low)} to {change(high)}"
    near, far = sorted((low, high), key=lambda value: abs(value - 1))
    return f"{percent(near)} % to {change(far)}"


def _decimals(gain_percent: float) -> int:
    return 1 if abs(gain_percent) < 9.95 else 0


def _direction(ratio: float) -> str:
    return "fewer" if ratio < 1 else "more"


def short(label: str, limit: int = 40) -> str:
    """Return a label cut to `limit` characters."""
    return label if len(label) <= limit else f"{label[: limit - 1]}…"


def short_labels(labels: Iterable[str], limit: int = 40) -> dict[str, str]:
    """Return each label cut to `limit` characters, so that different labels stay different.

    A label is cut at its end or, if others begin alike, in its middle. If that is not enough, its number comes first.
    """
    listed = list(dict.fromkeys(labels))
    names = {label: short(label, limit) for label in listed}
    tail = limit // 2
    names |= {label: f"{label[: limit - tail - 1]}…{label[-tail:]}" for label in _alike(names)}
    return names | {label: short(f"{listed.index(label) + 1}: {label}", limit) for label in _alike(names)}


def _alike(names: Mapping[str, str]) -> list[str]:
    """Return the labels whose names are not unique."""
    counts = Counter(names.values())
    return [label for label, name in names.items() if counts[name] > 1]


def joined(parts: Sequence[str]) -> str:
    """Return `a`, `a and b` or `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def capitalized(text: str) -> str:
    """Return a text with its first letter in upper case and the rest unchanged."""
    return text[:1].upper() + text[1:]


def run_url(tracking_uri: str, experiment_id: str, run_id: str) -> str | None:
    """Return the address of a run's page without credentials; None for a store that has no web address."""
    parts = urlsplit(tracking_uri)
    if parts.scheme not in ("http", "https"):
        return None
    base = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
    # Without the workflow type MLflow shows the page in its section for traces.
    return f"{base}/#/experiments/{experiment_id}/runs/{run_id}?workflowType=machine_learning"
