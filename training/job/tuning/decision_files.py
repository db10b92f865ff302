"""Files with decisions, in a folder that all jobs of this machine share: one file per group, and one per setting.

The first job of a group decides for all of them on the same kind of machine, so that arms differ only in the fields
that the experiment varies. A later group with the same model, shapes and versions takes over what an earlier one chose.
"""

import hashlib
import json
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional

from tuning.decision import Decision, from_json, to_json

FOLDER_VARIABLE = "TRAINFARE_DECISIONS_DIR"
"""Variable with the folder. Without it, rules decide instead of trials: two jobs could choose differently."""
FORMAT = 1
"""Version of the files and of the trial. A change invalidates all earlier decisions."""
MAX_BYTES = 100_000


class DecisionFiles:
    """Decisions on disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other jobs out. Trials of two jobs would also disturb each other."""
        from filelock import FileLock

        self._folder.mkdir(parents=True, exist_ok=True)
        with FileLock(str(self._folder / "lock")):
            yield

    def read(self, key: Mapping[str, Any]) -> Optional[Decision]:
        """Return the decision for a key, or None if it does not exist or is damaged."""
        try:
            with self._path(key).open("rb") as file:
                return from_json(file.read(MAX_BYTES).decode("utf-8", "replace"))
        except OSError:
            return None

    def write(self, key: Mapping[str, Any], decision: Decision) -> None:
        """Write the decision for a key in one step."""
        path = self._path(key)
        unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        unfinished.write_text(to_json(decision, key), "utf-8")
        unfinished.replace(path)

    def _path(self, key: Mapping[str, Any]) -> Path:
        text = json.dumps({"format": FORMAT, **key}, sort_keys=True)
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"
