"""Values that a trial has chosen for `auto`, with its measurements, as JSON. Pure."""

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Dict, List, Mapping, Optional

ALLOWED: Mapping[str, Any] = {
    "precision": ("fp32", "bf16"),
    "attention": ("blockwise", "eager", "sdpa", "flash_attention_2"),
    "dropout": ("bulk", "torch"),
    "threads": range(1, 4097),
}
"""Field to the values that a trial can choose. `threads` is not an argument of the job."""


@dataclass(frozen=True)
class Decision:
    """Values for `auto`, with the trial that they come from."""

    values: Dict[str, Any] = field(default_factory=dict)
    """Chosen values of the fields in `ALLOWED`. A fixed field is absent. `remark` states if one was chosen without
    measurements."""
    samples_per_second: Dict[str, float] = field(default_factory=dict)
    """Rate of each candidate: forward and backward pass without the optimizer. A key is like `bf16_eager`. With one
    thread, or beside busy processes, the rate is per second of CPU time, summed over the threads."""
    seconds: float = 0.0
    """Duration of the trial."""
    rows: int = 0
    """Rows of the batch in the trial."""
    tokens: int = 0
    """Tokens of each row, padding included."""
    layers: int = 0
    """Layers of the model in the trial; 0 if they are not in a stack."""
    remark: str = ""
    """Problems in the trial: too little time or memory, or an implementation that failed."""
    source: str = ""
    """Name of the job that ran the trial."""
    is_complete: bool = True
    """False if the trial chose without enough measurements, so that other groups should try again."""

    def merged(self, other: "Decision") -> "Decision":
        """Return this decision with the values and measurements of another one that it does not have.

        The description of the trial (duration, batch, remark, source) is this decision's if it has measurements.
        """
        return replace(
            self if self.samples_per_second else other,
            values={**other.values, **self.values},
            samples_per_second={**other.samples_per_second, **self.samples_per_second},
        )

    def only(self, fields: Any) -> "Decision":
        """Return this decision with the values of these fields alone."""
        return replace(self, values={name: value for name, value in self.values.items() if name in fields})

    def metrics(self) -> Dict[str, float]:
        """Return `trial/*`: the rates of the candidates, and the batch with which they were measured."""
        if not self.samples_per_second:
            return {}
        rates = {f"trial/{name}_samples_per_second": rate for name, rate in self.samples_per_second.items()}
        return {**rates, "trial/rows": self.rows, "trial/tokens": self.tokens, "trial/layers": self.layers}


def to_json(decision: Decision, key: Mapping[str, Any]) -> str:
    """Return the text of a decision's file. `key` describes for what it holds, for people who read the file."""
    return json.dumps({"for": dict(key), **asdict(decision)}, indent=1, sort_keys=True)


def from_json(text: str) -> Optional[Decision]:
    """Return the decision in a file's text, or None if it is damaged or has values that no trial chooses."""
    try:
        fields = json.loads(text)
        fields.pop("for", None)
        decision = Decision(**fields)
        is_valid = all(value in ALLOWED[name] for name, value in decision.values.items())
        rates = [float(rate) for rate in decision.samples_per_second.values()]
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return decision if is_valid and all(rate > 0 for rate in rates) else None


def message(decision: Decision) -> str:
    """Return the line for the log: the values, and where the rates behind them are."""
    values = [f"{name} {value}" for name, value in decision.values.items()]
    if not values:
        return ""
    text = f"auto chose {_listed(values)}"
    if decision.samples_per_second:
        origin = f" by {decision.source}" if decision.source else ""
        text += f" in a trial of {decision.seconds:.1f} s{origin} (the rates are the metrics trial/*)"
    return f"{text}; {decision.remark}" if decision.remark else text


def _listed(texts: List[str]) -> str:
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))
