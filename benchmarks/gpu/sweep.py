"""`python -m benchmarks.gpu.sweep WORKLOAD`, which `make gpu-sweep` calls: a sweep to a target, with a verdict.

Each step is a command of the product with its state in a folder. If a call is cut off, only the running job is lost.
The next call continues:

1. `train` the published recipe once, on its own number of samples. Its lowest loss plus the workload's margin is the
   target of everything after it. It is recorded before the first other training, and never changes.
2. `sweep` batch sizes, two rules for the learning rate, and compilers, each setting trained to the target.
3. `compare` the recipe with the cheapest setting of each compiler, with new seeds, in alternating waves.

The workload `adapters` has its own arms, so only the comparison runs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from benchmarks.bench_workloads import matmul_flops_per_second
from benchmarks.gpu.paths import cards_here
from benchmarks.support.results import FOLDER, Row, figure, write
from benchmarks.support.workloads import DATA, EMOTION, MINILM, RECIPE, SST2_TEXT, TWEETS, WORDS, check_data
from reports.model.report import Chart
from tracking.recorded.arms import BILLABLE
from tracking.recorded.recorded_job import STEADY
from tracking.recording.run_artifacts import ROOT
from training.contract.service import TERMINAL_STATUSES
from training.services.supervision.job_folder import JobFolder

MINUTES, NO_GPU, PAUSED = 4.0, 2, 130
STATE, IMAGES = ROOT / ".gpu-sweep", ROOT / "docs" / "images"
BATCH_SIZES, COMPILERS, RULES = "8..1024", "none,inductor", "[linear, sqrt]"
EVALUATIONS = 16
"""Evaluations of a whole training. A training ends at the first that reaches the target."""
SLACK_SECONDS = 5.0
"""Seconds that a command needs around its jobs: for its start, its records and its report."""
LATEST = 4
"""Number of recent jobs from which the duration of the next one is estimated: one for each compiler and rule."""
LARGEST_SHARE = 0.8
"""Share of a call for which a single job is given room, however long the latest ones were."""
LONGEST_JOB_SECONDS = 220
"""Time limit of a job: it must fit into a call."""
MOST_OF_THE_RECIPE = 0.35
"""Target: the found setting's billable seconds over the recipe's."""
LEAST_OF_THE_MATMUL_RATE = 0.35
"""Target: model FLOP/s of the found settings, on real tokens, over those of a product of two large matrices."""
DONE, NO_TIME = "Finished.", "The time limit is reached."


@dataclass(frozen=True, kw_only=True)
class SweptWorkload:
    title: str
    experiment: str
    data: Mapping[str, str]
    batch_size: int
    learning_rate: str
    rows: int
    """Training rows; of GPT-2, blocks of 512 tokens."""
    epochs: int
    margin: float = 0.05
    """Share by which the target is above the lowest loss of the recipe. The default is the product's margin for equal
    quality."""
    least_utilisation: float | None = LEAST_OF_THE_MATMUL_RATE
    """Target of the found settings' utilisation; None for a model below base size."""
    more: Mapping[str, str] = field(default_factory=dict)
    baseline: str = "recipe"
    """Arm with which the comparison compares the others. The experiment has its own arms if this is not the recipe."""


SST2 = {**SST2_TEXT, "data.columns": "{text: sentence, label: label}", "data.labels": "[negative, positive]"}
WORKLOADS: Mapping[str, SweptWorkload] = {
    "minilm-emotion": SweptWorkload(
        title="MiniLM, emotion",
        experiment="emotion-bert",
        data={**MINILM, **EMOTION},
        batch_size=24,
        learning_rate="3e-5",
        rows=16_000,
        epochs=4,
        least_utilisation=None,
    ),
    "minilm-tweets": SweptWorkload(
        title="MiniLM, tweets",
        experiment="reviews-distilbert",
        data={**MINILM, **TWEETS, "best_metric": "null"},
        batch_size=16,
        learning_rate="3e-5",
        rows=14_712,
        epochs=3,
        least_utilisation=None,
    ),
    "bert-sst2": SweptWorkload(
        title="BERT base with random weights, SST-2",
        experiment="emotion-bert",
        # Of all 67,349 rows, batches of 8 would take longer than a call.
        data={**WORDS, "model_type": "bert", **SST2, "data.train_rows": "16000"},
        batch_size=32,
        learning_rate="2e-5",
        rows=16_000,
        epochs=3,
        more={"max_length": "128"},
    ),
    "gpt2-sst2": SweptWorkload(
        title="GPT-2 with random weights, SST-2",
        experiment="sst2-gpt2",
        data=SST2_TEXT,
        batch_size=10,
        learning_rate="1.5625e-5",
        rows=1_625,
        # The published 100 epochs learn the rows by heart.
        epochs=10,
        margin=0.01,
        more={"eval_batch_size": "32"},
    ),
    "adapters": SweptWorkload(
        title="MiniLM, emotion, full fine-tuning and adapters",
        experiment="adapters",
        data={**MINILM, **EMOTION, "data.train_rows": "4000"},
        batch_size=8,
        learning_rate="2e-4",
        rows=4_000,
        epochs=1,
        more={"eval_strategy": "end", "eval_samples": "null", "data.validation_rows": "2000"},
        baseline="full",
    ),
}
"""Published batch sizes, learning rates and lengths: emotion and tweets are padded to 512 tokens, SST-2 to 128 as in
Hugging Face's `run_glue`, and GPT-2's blocks have 512 tokens at 5e-5 for a batch of 32."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Size of a run: the whole one on a GPU, or a small one that only shows that the commands work."""

    rows: int | None = None
    """Training rows; None for all."""
    batch_sizes: str = BATCH_SIZES
    compilers: str = COMPILERS
    precision: str = "fp16"
    """Precision of the recipe: on a GPU, that of the publications."""
    repeats: int = 9


@dataclass
class Deadline:
    minutes: float
    started: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        return self.started + 60 * self.minutes - time.monotonic()


class GpuSweep:
    """The sweep of one workload, whose state is in a folder."""

    def __init__(self, name: str, folder: Path, limits: Limits, deadline: Deadline, *, is_published: bool) -> None:
        self.name, self.folder, self.limits, self.deadline = name, folder / name, limits, deadline
        self.is_published = is_published
        self.workload = WORKLOADS[name]
        self.folder.mkdir(parents=True, exist_ok=True)
        self._published = -1

    def run(self) -> str:
        """Run or continue the three steps. Return why the call ended: `DONE`, or a sentence."""
        self._forget_lost_jobs()
        if self.workload.baseline != "recipe":
            if not self._kept("compared"):
                if why := self._command("compare", {**self.fields(), **self.adapter_arms()}):
                    return why
                self._keep("compared", self._comparison())
            self.publish(is_last=True)
            return DONE
        if not (target := self._kept("target")):
            if why := self._command("train", {**self.fields(), **self._recipe()}):
                return why
            losses = self._losses()
            target = {"value": round(min(losses) * (1 + self.workload.margin), 4), "losses_of_the_recipe": losses}
            self._keep("target", target)
            print(f"Target, from now on: eval_loss {target['value']}", flush=True)
        if not self._kept("matmul"):
            precision, device = ("bf16", "cuda") if self.is_published else ("fp32", "cpu")
            self._keep("matmul", {"flops_per_second": matmul_flops_per_second(precision, device)})
        fields = {**self.fields(), "target": f"{{metric: eval_loss, value: {target['value']}, stop: true}}"}
        if not (chosen := self._kept("chosen")):
            if why := self._command("sweep", {**fields, **self.space()}):
                return why
            if not (chosen := self._cheapest()):
                return "No setting reached the target."
            self._keep("chosen", chosen)
        if not self._kept("compared"):
            if why := self._command("compare", {**fields, **self.repeats(chosen)}):
                return why
            self._keep("compared", {**self._comparison(), "winner": next(iter(chosen))})
        self.publish(is_last=True)
        return DONE

    def fields(self) -> dict[str, str]:
        workload, few = self.workload, self.limits.rows
        samples = few or workload.rows * workload.epochs
        small = {"data.train_rows": str(few), "data.validation_rows": "32", "epochs": "1", "max_length": "64"}
        return {
            "experiment": workload.experiment,
            **workload.data,
            "batch_size": str(workload.batch_size),
            "base_batch_size": str(workload.batch_size),
            "base_learning_rate": workload.learning_rate,
            "epochs": str(workload.epochs),
            "eval_strategy": "samples",
            "eval_samples": str(samples // EVALUATIONS),
            "eval_batch_size": "128",
            "save_strategy": "none",
            "save_model": "false",
            "log_model": "none",
            "logging_steps": "20",
            "machine.devices": "1",
            "machine.max_run_seconds": str(LONGEST_JOB_SECONDS),
            **workload.more,
            **(small if few else {}),
        }

    def _recipe(self) -> dict[str, str]:
        return {**RECIPE, "precision": self.limits.precision, "batch_size": str(self.workload.batch_size)}

    def space(self) -> dict[str, str]:
        """Return the fields of a sweep that trains every setting, without repeats: `compare` repeats the best."""
        own = {"batch_sizes": self.limits.batch_sizes, "compilers": self.limits.compilers}
        own |= {"learning_rate_scalings": RULES, "sampler": "grid", "pruning": "false", "trials": "1000"}
        return {f"sweep.{name}": text for name, text in {**own, "finalists": "1", "repeats": "0"}.items()}

    def repeats(self, chosen: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """Return the fields of the comparison of the recipe with these arms."""
        arms = {"recipe": {name: yaml.safe_load(text) for name, text in self._recipe().items()}, **chosen}
        own = {"arms": json.dumps(arms), "baseline": "recipe", "repeats": str(self.limits.repeats)}
        return {f"compare.{name}": text for name, text in own.items()}

    def adapter_arms(self) -> dict[str, str]:
        """Return the fields of the experiment's own comparison, with QLoRA where its package is installed."""
        arms = yaml.safe_load((ROOT / "experiments" / f"{self.workload.experiment}.yaml").read_text())["compare"][
            "arms"
        ]
        if importlib.util.find_spec("bitsandbytes"):
            arms["qlora-16"] = {**arms["lora-16"], "adapter.method": "qlora"}
        return {"compare.arms": json.dumps(arms), "compare.repeats": str(min(self.limits.repeats, 3))}

    def _command(self, verb: str, fields: Mapping[str, str]) -> str:
        """Run a command of the product until it ends or the time is over. Return why it did not finish, or ""."""
        if self.deadline.left < self._next_seconds():
            return NO_TIME
        print(f"\n{verb}:", flush=True)
        options = [part for name, value in fields.items() for part in (f"--{name}", value)]
        arguments = [sys.executable, "-m", "experiments", verb, *options]
        environment = {"TRAINFARE_HOME": str(self.home), "MLFLOW_TRACKING_URI": self.tracking_uri}
        offline = {"HF_HUB_OFFLINE": "1"} if DATA.is_dir() else {}
        launcher = subprocess.Popen(arguments, cwd=ROOT, env={**os.environ, **environment, **offline})
        try:
            is_draining = False
            while launcher.poll() is None:
                time.sleep(0.5)
                if self.deadline.left < SLACK_SECONDS:
                    launcher.kill()
                # A command without a running job writes its report, and the signal would kill it.
                elif not is_draining and self.deadline.left < self._next_seconds() and self._has_running_job:
                    is_draining = True
                    launcher.send_signal(signal.SIGUSR1)  # start no more jobs
                self.publish()
        finally:
            launcher.kill()
        self.publish(is_last=True)
        if launcher.returncode == PAUSED or launcher.returncode < 0:
            return NO_TIME
        # A sweep without a winner and a comparison with a failed arm return 1, and have their rows.
        is_done = launcher.returncode == 0 or (launcher.returncode == 1 and verb != "train")
        return "" if is_done else f"`{verb}` ended with exit code {launcher.returncode}."

    def _next_seconds(self) -> float:
        """Return the seconds that another job may take: batch sizes ascend, so it resembles the latest ones."""
        latest = sorted(self._ended_jobs, key=lambda state: state["TrainingEndTime"])[-LATEST:]
        billed = [float(state.get("BillableSecondsExact", 0.0)) for state in latest]
        return min(SLACK_SECONDS + 1.2 * max(billed, default=0.0), LARGEST_SHARE * 60 * self.deadline.minutes)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def tracking_uri(self) -> str:
        return f"sqlite:///{self.folder / 'mlflow.db'}"

    @property
    def _job_folders(self) -> list[JobFolder]:
        return [JobFolder(file.parent) for file in (self.home / "jobs").glob("[!.]*/state.json")]

    @property
    def _ended_jobs(self) -> list[Mapping[str, Any]]:
        states = [json.loads((folder.path / "state.json").read_text()) for folder in self._job_folders]
        return [state for state in states if state["TrainingJobStatus"] in TERMINAL_STATUSES]

    @property
    def _has_running_job(self) -> bool:
        return len(self._job_folders) > len(self._ended_jobs)

    def _forget_lost_jobs(self) -> None:
        """Delete jobs whose machine is gone, and their runs, so that the commands start them again."""
        lost = [each for each in self._job_folders if not each.is_supervised()]
        lost = [each for each in lost if each.state()["TrainingJobStatus"] not in TERMINAL_STATUSES]
        for folder in lost:
            for run in self._runs(job_name=folder.path.name):
                self._client.delete_run(run.info.run_id)
            shutil.rmtree(folder.path)
            print(f"{folder.path.name} was cut off and starts again.", flush=True)

    @cached_property
    def _client(self) -> Any:
        from mlflow import MlflowClient  # takes seconds

        return MlflowClient(tracking_uri=self.tracking_uri)

    def _runs(self, **tags: str) -> list[Any]:
        from tracking.queries.job_tables import runs_where, tagged

        return runs_where(self._client, tagged(kind="job", **tags)) if (self.folder / "mlflow.db").exists() else []

    def _losses(self) -> list[float]:
        from tracking.queries.metric_histories import histories

        run_id = self._runs()[-1].info.run_id
        return [float(value) for value in histories(self._client, {run_id: 0.0}, ["eval_loss"])[run_id]["value"]]

    def trials(self) -> list[Any]:
        """Return the trials of the sweep that have ended, the cheapest first."""
        from reports.sweep.trials import SweepSpec, ranked, trial_of
        from tracking.queries.job_tables import table_of
        from tracking.recorded.recorded_job import job_of

        spec = SweepSpec(metric="eval_loss", target=(self._kept("target") or {}).get("value"))
        rows = table_of(self._runs(role="trial")).to_dict("records")
        return [each for each in ranked([trial_of(job_of(row), spec) for row in rows], spec) if each.kind != "running"]

    def _cheapest(self) -> dict[str, dict[str, Any]]:
        """Return the fields of the cheapest setting of each compiler, by arm."""
        arms: dict[str, dict[str, Any]] = {}
        for trial in (each for each in self.trials() if each.has_value):
            setting = trial.setting
            own = {"batch_size": int(setting.batch_size), "learning_rate_scaling": setting.scaling}
            arms.setdefault(setting.compiler, {"compiler": setting.compiler, **own})
        return arms

    def _comparison(self) -> dict[str, Any]:
        """Return the summary of the newest comparison's report."""
        reports = (self.home / "reports").glob("*/summary.json")
        summary: dict[str, Any] = json.loads(max(reports, key=lambda path: path.stat().st_mtime).read_text())
        return summary

    def _kept(self, name: str) -> dict[str, Any]:
        path = self.folder / f"{name}.json"
        kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return kept

    def _keep(self, name: str, value: Mapping[str, Any]) -> None:
        path = self.folder / f"{name}.json"
        path.with_suffix(".new").write_text(json.dumps(value, indent=1))
        path.with_suffix(".new").replace(path)

    def publish(self, *, is_last: bool = False) -> None:
        """Write the rows of every job that has ended, if one has ended since the last time, or if this is the last."""
        if self._published == (count := len(self._ended_jobs)) and not is_last:
            return
        self._published = count
        rows = [*self.rows()]
        self._keep("rows", {"notes": self.notes(), "rows": [asdict(row) for row in rows]})
        if self.is_published and rows:
            write("gpu-sweep", rows, self.notes(), appends=True, quiet=True)
            shutil.copy(FOLDER / "gpu-sweep.json", self.folder)  # one folder to bring back from another machine
            if chart := picture([asdict(row) for row in rows]):
                (IMAGES / f"gpu-sweep-{self.name}.png").write_bytes(chart.png)

    @property
    def _baseline(self) -> str:
        return "the recipe" if self.workload.baseline == "recipe" else self.workload.baseline

    def notes(self) -> list[str]:
        """Return the target and its source, and the verdicts."""
        target, compared = self._kept("target"), self._kept("compared")
        rule = f"{self.workload.margin:.0%} above the lowest loss of one training of the recipe"
        notes = [f"{self.name}, recipe: the target is eval_loss {target['value']}, {rule}."] if target else []
        for each in compared.get("contrasts", ()):
            if ratio := each["ratio"]:
                figures = f"{ratio['estimate']:.3g} ({ratio['low']:.3g} to {ratio['high']:.3g}) of its billable seconds"
                notes.append(f"{self.name}, {each['arm']} over {self._baseline}: {each['outcome']}, {figures}.")
        return notes

    def rows(self) -> Iterator[Row]:
        """Yield the verdicts, and then the figures of every trained setting."""
        compared, most = self._kept("compared"), MOST_OF_THE_RECIPE
        for contrast in compared.get("contrasts", ()):
            is_winner, ratio = contrast["arm"] == compared.get("winner"), contrast["ratio"]
            other = "another compiler" if self._baseline == "the recipe" else contrast["outcome"]
            role = "the winner" if is_winner else other
            if ratio:
                yield Row(
                    name=f"{self.name}, {contrast['arm']} over {self._baseline}: {role}",
                    value=ratio["estimate"],
                    unit="x",
                    spread=(ratio["high"] - ratio["low"]) / 2,
                    n=ratio["n_arm"],
                    target=f"cheaper, at most {most} x" if is_winner else None,
                    met=ratio["estimate"] <= most and contrast["outcome"] == "cheaper" if is_winner else None,
                )
        for arm in compared.get("arms", ()):
            if seconds := arm["numbers"].get(BILLABLE):
                yield Row(
                    name=f"{self.name}, {arm['label']}: repeats", value=seconds["typical"], unit="s", n=seconds["n"]
                )
        chosen, matmul = self._kept("chosen"), self._kept("matmul").get("flops_per_second", math.nan)
        for trial in self.trials():
            setting = trial.setting
            own = {"batch_size": int(setting.batch_size), "learning_rate_scaling": setting.scaling}
            is_found = own.items() <= chosen.get(setting.compiler, {}).items()
            name = f"{self.name}, {setting.compiler}, batch {setting.batch_size:g}, {setting.scaling}"
            how = "to the target" if trial.has_value else trial.end
            for column, unit, what in (
                (BILLABLE, "s", f"billable seconds {how}"),
                (STEADY, "samples/s", "samples"),
                ("throughput_steady_tokens_per_second", "tokens/s", "real tokens"),
            ):
                if math.isfinite(value := trial.job.number(column)):
                    yield Row(name=f"{name}: {what}", value=value, unit=unit)
            if math.isfinite(share := trial.job.number("throughput_model_flops_per_second") / matmul):
                what, least = (
                    ("utilisation, found", self.workload.least_utilisation) if is_found else ("utilisation", None)
                )
                yield figure(f"{name}: {what}", share, "of the matmul rate", least=least)


TRIAL = re.compile(r"\S+, (.+), batch (\d+), (\w*): billable seconds (.*)")


def picture(rows: Sequence[Mapping[str, Any]]) -> Chart | None:
    """Return the product's chart of cost by batch size from the rows of a result file; None without any cost."""
    import pandas as pd

    from reports.charts.sweep_charts import cost_by_batch
    from reports.sweep.sweep import sweep_of
    from tracking.queries.job_tables import NUMBER_COLUMNS, TEXT_COLUMNS

    trials = [(found.groups(), row["value"]) for row in rows if (found := TRIAL.fullmatch(row["name"]))]
    names = ("compiler", "batch_size", "scaling", "end")
    if not trials:
        return None
    jobs = [{**dict(zip(names, texts, strict=True)), BILLABLE: seconds} for texts, seconds in trials]
    for number, job in enumerate(jobs):
        end = "completed" if job["end"] == "to the target" else job["end"]
        job |= {"run_id": str(number), "role": "trial", "status": "FINISHED", "end": end}
    table = pd.DataFrame(jobs).reindex(columns=[*dict.fromkeys([*TEXT_COLUMNS, *NUMBER_COLUMNS, *jobs[0]])])
    compilers = [*dict.fromkeys(job["compiler"] for job in jobs)]
    document = {"objective": {"cost": "billable_seconds"}, "compilers": compilers}
    return cost_by_batch(sweep_of(table.astype(object).where(table.notna(), None), "gpu-sweep", document, {}))


def main(arguments: Sequence[str]) -> int:
    """Run or continue the sweep. Return 0 if it is finished, 1 after an error, 2 without a GPU, 130 at the limit."""
    parser = argparse.ArgumentParser(prog="benchmarks.gpu.sweep", description="A sweep with a verdict, on a GPU.")
    parser.add_argument("workload", choices=WORKLOADS, metavar="WORKLOAD", help=f"one of {', '.join(WORKLOADS)}")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help=f"time limit of this call, by default {MINUTES:g}"
    )
    parser.add_argument("--state", type=Path, default=STATE, help="folder that a later call continues")
    parser.add_argument("--on-cpu", action="store_true", help="run small, without a GPU, and publish nothing")
    parser.add_argument("--batch-sizes", default="", help="with --on-cpu: range of batch sizes, by default 8..32")
    parser.add_argument("--compilers", default="", help=f"with --on-cpu: compilers, by default {COMPILERS}")
    options = parser.parse_args(arguments)
    if not options.on_cpu and (options.batch_sizes or options.compilers):
        parser.error("--batch-sizes and --compilers need --on-cpu: on a GPU, the whole space is trained.")
    deadline, cards = Deadline(options.minutes), None if options.on_cpu else cards_here()
    workload = WORKLOADS[options.workload]
    limits = Limits()
    if options.on_cpu:
        sizes, compilers = options.batch_sizes or "8..32", options.compilers or COMPILERS
        limits = Limits(rows=128, batch_sizes=sizes, compilers=compilers, precision="fp32", repeats=2)
    steps = (
        f"the recipe (batch {workload.batch_size}) once, for the target; batch sizes {limits.batch_sizes}, the rate "
        f"scaled by {RULES}, with {limits.compilers}; then the recipe against the best of each, {limits.repeats} times "
        "at most"
    )
    if workload.baseline != "recipe":
        steps = f"the experiment's comparison with {workload.baseline}"
    print(f"{workload.title}, at most {options.minutes:g} minutes: {steps}. State: {options.state}", flush=True)
    if not (options.on_cpu or cards):
        print("This machine has no GPU that PyTorch can use. Nothing was run; --on-cpu runs it small.", flush=True)
        return NO_GPU
    check_data()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends the running command, too
    state, is_published = options.state.resolve(), cards is not None
    sweep = GpuSweep(options.workload, state, limits, deadline, is_published=is_published)
    end = sweep.run()
    for note in sweep.notes():
        print(note)
    print(end if end == DONE else f"{end} The same command continues.")
    return 0 if end == DONE else PAUSED if end == NO_TIME else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
