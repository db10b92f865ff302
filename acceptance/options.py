"""Options of one acceptance."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

from training.contract.errors import InputError

MLFLOW_SERVICES = (":mlflow-tracking-server/", ":mlflow-app/")
"""Parts of the ARNs of SageMaker's managed MLflow servers."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the command, checked."""

    role: str
    """Role of jobs and endpoints, by name or ARN."""
    budget_usd: float
    """Most that everything may cost, in US dollars."""
    folder: Path
    """Folder of the report, the data, the state and the tracking database."""
    region: str | None = None
    """Region. None means that of the environment."""
    bucket: str | None = None
    """Bucket. None means `sagemaker-<region>-<account>`."""
    mlflow: str | None = None
    """ARN of a managed MLflow server. None leaves that step out."""
    prices: Path | None = None
    """Table of prices instead of AWS's price list."""
    program: tuple[str, ...] = (sys.executable, "-m", "experiments")
    """Words that start trainfare."""
    long_job_steps: int = 6_000
    """Optimizer steps of the job that is stopped: about a minute on a T4 (an estimate)."""
    steps_between_saves: int = 100
    """Optimizer steps between two of its checkpoints."""

    @property
    def id(self) -> str:
        """Id of this acceptance, which the names of its jobs and its endpoint contain."""
        return self.folder.name

    @property
    def aws_fields(self) -> dict[str, str]:
        """Fields `aws.*` of every command, without the prefix."""
        fields = {"role": self.role, "region": self.region, "bucket": self.bucket}
        fields["prices"] = str(self.prices) if self.prices else None
        return {name: value for name, value in fields.items() if value}


def read_budget(text: str) -> float:
    """Return the budget in US dollars. Raises InputError for anything but a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError(f"BUDGET is '{text}': it must be a number above 0, in US dollars.")
    return value


def read_mlflow(text: str) -> str | None:
    """Return the ARN of a managed MLflow server, or None for an empty text. Raises InputError for other addresses."""
    if not text:
        return None
    if not (text.startswith("arn:aws") and any(part in text for part in MLFLOW_SERVICES)):
        raise InputError(f"MLFLOW is '{text}': it must be the ARN of an mlflow-tracking-server or an mlflow-app.")
    return text
