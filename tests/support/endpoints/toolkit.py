"""SageMaker's inference toolkit for Hugging Face, as far as it loads an archive and answers requests."""

from __future__ import annotations

import importlib.util
import json
import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.support.aws.hosting import Hosting


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("inference", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Toolkit:
    """Load an archive like the inference toolkit (`handler_service.py` of 2.6.0): `code/inference.py`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._models: dict[str, Callable[[Any], Any]] = {}

    def __call__(self, hosting: Hosting, model: dict[str, Any], body: bytes) -> tuple[int, bytes]:
        try:
            if model["ModelName"] not in self._models:
                self._models[model["ModelName"]] = self._loaded(hosting, model)
            return 200, json.dumps(self._models[model["ModelName"]](json.loads(body))).encode()
        except Exception as error:
            return 400, json.dumps({"code": 400, "type": "InternalServerException", "message": str(error)}).encode()

    def _loaded(self, hosting: Hosting, model: dict[str, Any]) -> Callable[[Any], Any]:
        folder = self._folder / model["ModelName"]
        with tarfile.open(fileobj=BytesIO(hosting.model_archive(model))) as tar:
            tar.extractall(folder, filter="data")
        code = loaded(folder / "code" / "inference.py")
        made = code.model_fn(str(folder))
        return lambda data: code.predict_fn(data, made)
