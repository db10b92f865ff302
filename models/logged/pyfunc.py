"""`python_function` of a logged model. This file and ours that it imports are stored with the model: see `flavor`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from models.inference.evaluation import Evaluation
from models.inference.predictor import Predictor, load_predictor


def _load_pyfunc(path: str, model_config: dict[str, Any]) -> Answerer:
    """Load the model for MLflow, which calls this function. `path` is the MLflow model's folder."""
    evaluation = Evaluation(**model_config["evaluation"])
    predictor = load_predictor(Path(path) / "model", task=model_config["task"], evaluation=evaluation)
    predictor.loaded = replace(predictor.loaded, options=model_config)
    return Answerer(predictor)


class Answerer:
    """Answers a request with a table that has one row for each of the request's rows."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Return the answers. Raises ValueError for invalid input; MLflow's server turns it into status 400."""
        return pd.DataFrame(self._predictor.answer(rows_of(model_input), params))


def rows_of(inputs: Any) -> list[Any]:
    """Return the rows of a table, a text, a mapping, or a list or array of texts or mappings."""
    if isinstance(inputs, pd.DataFrame):
        inputs = inputs.to_dict(orient="records")
    elif isinstance(inputs, np.ndarray):
        inputs = inputs.reshape(-1).tolist() if inputs.size == len(np.atleast_1d(inputs)) else inputs.tolist()
    elif isinstance(inputs, dict):
        rows = zip(*map(_listed, inputs.values()), strict=True)
        inputs = [dict(zip(inputs, row, strict=True)) for row in rows]
    # If a table has a single column, its name does not matter: it is 0 if the column has no name.
    return [next(iter(row.values())) if isinstance(row, dict) and len(row) == 1 else row for row in _listed(inputs)]


def _listed(values: Any) -> list[Any]:
    if isinstance(values, np.ndarray):
        return [values.item()] if values.ndim == 0 else values.tolist()
    return list(values) if isinstance(values, (list, tuple)) else [values]
