"""Logging a model of 200 MB needs little memory."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, TrackingServer
from tests.support.models.made_models import packed

pytestmark = pytest.mark.slow
WEIGHTS_BYTES = 200 * 2**20
MAY_GROW_BYTES = WEIGHTS_BYTES // 5
LOGS = """
import json, resource, sys
from pathlib import Path
from mlflow import MlflowClient
from tests.support.models.place import Place
from tracking.server.store import open_store

def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

uri, location, folder, *archives = sys.argv[1:]
client = MlflowClient(uri)
place = Place(open_store(uri), client.create_experiment("memory", artifact_location=location or None), Path(folder))
peaks = []
for archive in archives:
    place.log(place.run(Path(archive), Path(archive).name.partition(".")[0]))
    peaks.append(peak_bytes())
loaded = [name for name in ("torch", "transformers") if name in sys.modules]
print(json.dumps({"peaks": peaks, "messages": place.messages, "loaded": loaded}))
"""


def large(folder: Path, small: Path) -> Path:
    """Return the folder of a small model with large weights: random bytes after a safetensors header."""
    shutil.copytree(small, folder)
    header = json.dumps({"w": {"dtype": "U8", "shape": [WEIGHTS_BYTES], "data_offsets": [0, WEIGHTS_BYTES]}}).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for _ in range(WEIGHTS_BYTES // 2**20):
            file.write(os.urandom(2**20))
    return folder


@pytest.mark.parametrize("where", ["here", "on a server"])
def test_logging_a_large_model_needs_little_memory(
    where: str, tmp_path: Path, model_of: Callable[[str], Path], tracking_uri: str, request: pytest.FixtureRequest
) -> None:
    small = packed(model_of("classification"), tmp_path / "small.tar.gz")
    archive = packed(large(tmp_path / "large", model_of("classification")), tmp_path / "large.tar.gz")
    location = (tmp_path / "artifacts").as_uri() if where == "here" else ""
    server: TrackingServer | None = request.getfixturevalue("tracking_server") if where != "here" else None
    # The first, small one brings what all need; only the second one's weights are counted.
    words = [server.uri if server else tracking_uri, location, str(tmp_path), str(small), str(archive)]
    done = subprocess.run([sys.executable, "-c", LOGS, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert ["logged in MLflow (" in message for message in result["messages"]] == [True, True]
    assert "(201 MiB, " in result["messages"][1]
    before, after = result["peaks"]
    assert after - before < MAY_GROW_BYTES, (before, after)
    assert result["loaded"] == []
