"""The command `trainfare`, its verbs as functions for notebooks, and the SQLite store of MLflow.

    import trainfare

    result = trainfare.compare(experiment="mine.yaml", max_usd=5)
    result.verdicts    # pandas tables
    result.jobs
    result             # in a notebook, the report

Each verb of the command is a function here, with the same fields. It runs the command in a process of its own.

This folder is all that the editable install puts on the import path. The packages of the project (`models`, `reports`
and so on) stay invisible to other processes of the environment: a job imports its own modules of these names, as it
does on AWS.
"""

from __future__ import annotations

import html
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    import pandas as pd

REPOSITORY = Path(__file__).resolve().parent.parent
STATUS = ("\r", "Staging: ")
"""Beginnings of the lines that replace the one before."""


def main() -> None:
    """Run the command line of the repository that holds this file."""
    if not (REPOSITORY / "experiments" / "__main__.py").is_file():
        sys.exit("error: trainfare runs from its repository: run `make setup` there.")
    sys.path.insert(0, str(REPOSITORY))
    from experiments.__main__ import run

    run()


class CommandError(Exception):
    """A command ended with an error, whose sentence this is."""

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class Result(Mapping[str, Any]):
    """Answer of a command: the JSON document that `docs/output.md` describes, as a mapping, and what is made of it."""

    def __init__(self, answer: Mapping[str, Any], exit_code: int) -> None:
        self.answer = answer
        self.exit_code = exit_code
        """0, or 1 if a job failed, 3 for an unwanted result, 130 if jobs were left running or stopped."""

    def __getitem__(self, name: str) -> Any:
        return self.answer[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.answer)

    def __len__(self) -> int:
        return len(self.answer)

    @property
    def report(self) -> Path | None:
        """Page of the report; None for a command without one."""
        return Path(self.answer["report"]) if "report" in self.answer else None

    @property
    def verdicts(self) -> pd.DataFrame:
        """A row for each setting that was compared with the baseline, by its label: the outcome and the cost ratio."""
        import pandas as pd

        contrasts = self.answer.get("contrasts", self.answer.get("confirmation")) or []
        rows = {
            each["arm"]: {
                "outcome": each["outcome"],
                "reason": each["reason"],
                "cost_ratio": (ratio := each["ratio"] or {}).get("estimate"),
                "low": ratio.get("low"),
                "high": ratio.get("high"),
                "quality": (quality := each["quality"] or {}).get("arm"),
                "baseline_quality": quality.get("baseline"),
            }
            for each in contrasts
        }
        return pd.DataFrame.from_dict(rows, orient="index")

    @property
    def jobs(self) -> pd.DataFrame:
        """A row for each job, or for each group of an overview."""
        import pandas as pd

        if self.report:
            [table] = self.report.parent.glob("*.csv")
            return pd.read_csv(table)
        return pd.json_normalize(self.answer.get("jobs", []), max_level=0)

    def __repr__(self) -> str:
        text = str(self.answer.get("headline") or self.answer)
        return text if len(text) < 1000 else f"Result with {', '.join(self.answer)}"

    def _repr_html_(self) -> str | None:
        if not self.report:
            return None
        page = html.escape(self.report.read_text("utf-8"), quote=True)
        return f'<iframe srcdoc="{page}" title="Report" style="width: 100%; height: 45em; border: 0"></iframe>'


def _verb(name: str) -> Callable[..., Result]:
    def run(*words: str, **fields: object) -> Result:
        return _run([name, *words], fields)

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"""Run `trainfare {name}`, and return its answer. `trainfare {name} --help` lists the fields.

    A field within a section is an entry of a mapping, or has a dot: `data={{"train": "rows.csv"}}` is
    `**{{"data.train": "rows.csv"}}`. Raises CommandError with the command's sentence.
    """
    return run


train, compare, check = map(_verb, ("train", "compare", "check"))
probe, sweep, plan = map(_verb, ("probe", "sweep", "plan"))
attach, report, register, deploy, predict = map(_verb, ("attach", "report", "register", "deploy", "predict"))
undeploy, endpoints, jobs = map(_verb, ("undeploy", "endpoints", "jobs"))


def _run(words: list[str], fields: Mapping[str, object]) -> Result:
    command = [sys.executable, "-P", str(Path(__file__).resolve()), *words, *_options(words[0], fields)]
    with tempfile.TemporaryFile() as output:  # a pipe would fill up while the other one is read
        process = subprocess.Popen(
            [*command, "--format=json"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            env={**os.environ, "TRAINFARE_PROGRESS": "1"},
            start_new_session=True,  # so that an interrupt reaches it once
        )
        assert process.stderr
        try:
            _show(process.stderr)
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            _show(process.stderr)
            raise
        finally:
            exit_code = process.wait()
        output.seek(0)
        answer = output.read()
    document = json.loads(answer) if answer.strip() else {"error": f"the command ended with status {exit_code}."}
    if "error" in document:
        raise CommandError(document["error"], exit_code)
    return Result(document, exit_code)


def _options(verb: str, fields: Mapping[str, object]) -> Iterator[str]:
    for name, value in fields.items():
        if isinstance(value, Mapping) and "." not in name:
            yield from _options(verb, {f"{name}.{key}": each for key, each in value.items()})
        elif verb == "jobs":
            option = f"--{name.replace('_', '-')}"
            yield from [] if value is False else [option] if value is True else [f"{option}={value}"]
        else:
            yield f"--{name}={value if isinstance(value, str | Path) else json.dumps(value)}"


def _show(lines: IO[bytes]) -> None:
    """Print what the command prints; in a notebook, its status in a line of its own."""
    ipython, status = sys.modules.get("IPython"), None
    is_notebook = ipython is not None and ipython.get_ipython() is not None
    for line in lines:
        text = line.decode(errors="replace").rstrip("\n")
        if not text.startswith(STATUS):
            print(text)
        elif is_notebook:
            shown = {"text/plain": text.strip()}
            status = status or import_module("IPython.display").display(shown, raw=True, display_id=True)
            status.update(shown, raw=True)
    if status is not None:
        status.update({"text/plain": ""}, raw=True)


def sqlite_store(store_uri: str, artifact_uri: str | None = None) -> object:
    """Return MLflow's store of a SQLite database, once the database is complete.

    MLflow calls this in place of its own function, in every process that opens a store, such as `mlflow run`. If it
    created the tables itself, a kill meanwhile would leave a database that no MLflow can open.
    """
    from mlflow.tracking._tracking_service.utils import _get_sqlalchemy_store

    if not _has_newest_tables(store_uri):
        _prepare(store_uri)
    # MLflow creates the database's folder, under the name that the address has without decoding.
    path, sign, query = store_uri.partition("?")
    return _get_sqlalchemy_store(f"{unquote(path)}{sign}{query}", artifact_uri)


def _has_newest_tables(store_uri: str) -> bool:
    """Return whether the last of MLflow's migrations has ended. Any doubt is left to `_prepare`."""
    from mlflow.store.db.utils import _get_latest_schema_revision

    path = Path(unquote(store_uri.removeprefix("sqlite:///").partition("?")[0]))
    try:
        if not path.is_file():
            return False
        with closing(sqlite3.connect(path, timeout=60.0)) as database:
            return database.execute("SELECT version_num FROM alembic_version").fetchall() == [
                (_get_latest_schema_revision(),)
            ]
    except (OSError, sqlite3.Error):
        return False


def _prepare(store_uri: str) -> None:
    """Create or check the database in a process of its own, which may import our packages.

    Raises MLflow's ExecutionException with the reason, which `mlflow run` prints as one line.
    """
    from mlflow.exceptions import ExecutionException

    paths = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.run(
        [sys.executable, "-P", "-m", "tracking.server.database"],
        env={**os.environ, "MLFLOW_TRACKING_URI": store_uri, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if process.returncode != 0:
        lines = process.stderr.strip().splitlines() or [f"its preparation ended with status {process.returncode}"]
        raise ExecutionException(lines[-1].removeprefix("error: "))


if __name__ == "__main__":
    main()
