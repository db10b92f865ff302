"""The page docs/benchmarks.md: what each benchmark measures, and its figures, read from the result files."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

from benchmarks.opponents import PROGRAMS
from judging.intervals import mean_estimate
from tracking.recording.run_artifacts import ROOT, environment

FOLDER = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"

Result = Mapping[str, Any]
"""Result of one kind of machine: machine, commit, date, notes and rows."""


@dataclass(frozen=True)
class Figure:
    label: str
    rows: str
    """Regular expression of the names of its rows in the result file. Of several rows, the range is shown."""
    question: str = ""
    """Question that the row with the lowest value answers at the top of the page; "" for none."""
    command: str = ""
    """Command that measures this figure, named where it is not measured; "" for the section's. The page names a
    section's command once."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """One benchmark. Each of its rows with a target belongs to a figure."""

    measures: str
    figures: Sequence[Figure]
    command: str = ""
    """Command that measures it; "" for `python -m benchmarks` with the section's name."""
    short: str = ""
    """Missed targets, and limits of the figures."""


def hard_figures(parts: Mapping[str, str]) -> tuple[Figure, ...]:
    """Return figures of the situations in `benchmarks/recorded/situations.py`: labels, and beginnings of row names."""
    kinds = {
        "equal, one cold job": "equal settings, one cold job.*",
        "10, 20 % of seeds lose 0.3, nine repeats": ".* lose 0.3 .* 9 repeats",
        "10, 20 % of seeds lose 0.3, sixteen": ".* lose 0.3 .* 16 repeats",
        "6, 12 % of seeds lose 0.5, nine": ".* lose 0.5 .*",
        "equal bills, with stragglers": "equal mean bills, .*",
        "an arm that fails, dearer": ".* jobs fail .*",
        "equal, periodic load": "equal settings, a load.*",
        "equal, 10, 20 times the spread": "equal settings, the arm spreads.*",
        "worse by the margin": "an arm that learns in another way.*",
    }
    return tuple(
        Figure(label or name, f"{rows}: (?:{kind})") for name, kind in kinds.items() for label, rows in parts.items()
    )


SECTIONS: Mapping[str, Section] = {
    "workloads": Section(
        measures="The published recipe (padded to its full length, fp32, eager attention, no compiler) against the "
        "experiment's defaults, with MiniLM, in alternation, in real tokens per second. Utilisation is FLOP/s over the "
        "best product of two 2048 x 2048 matrices in the same precision.",
        figures=(
            Figure(
                "emotion, uncompiled: speed-up",
                r"emotion .*, ours uncompiled: speed-up in real tokens",
                "How many times as fast as the published recipe are our defaults (emotion, no compiler)?",
            ),
            Figure("emotion, inductor: speed-up", r"emotion .*, ours with inductor: speed-up in real tokens"),
            Figure("squad and mnli: speed-up", r"(squad|mnli) .*: speed-up in real tokens"),
            Figure("loss minus the recipe's", r".*: eval_loss minus the recipe's"),
            Figure("squad: F1 minus the recipe's", r"squad .*: eval_f1 minus the recipe's"),
            Figure("utilisation", r".*, ours .*: utilisation"),
        ),
        command="python -m benchmarks.bench_workloads [NAME ...]",
        short="MiniLM's matrices are too small for a utilisation of 0.45, and the few "
        "measured steps include slow first ones.",
    ),
    "real_sizes": Section(
        measures="The same with the published models in their real sizes and random weights: a few steps, once.",
        figures=(
            Figure("emotion-bert: speed-up", r"emotion-bert .*: speed-up in real tokens"),
            Figure("... in samples", r"emotion-bert .*: speed-up in samples"),
            Figure("four other workloads: speed-up", r"(?!emotion-bert).*: speed-up in real tokens"),
            Figure("loss minus the recipe's", r".*: eval_loss minus the recipe's"),
            Figure("utilisation", r".*, ours .*: utilisation"),
        ),
        command="python -m benchmarks.bench_workloads squad-albert bert-large-squad-dp emotion-bert ...",
        short="emotion-bert's rows were twice as long on our side as on the recipe's. After three steps from random "
        "weights, losses differ by up to 0.5 nats by the order of the rows alone, so they have no target any more "
        "(decision 0021).",
    ),
    "tuned_trainer": Section(
        measures="Our defaults without a compiler against `benchmarks/tuning/tuned_trainer.py`: the stock Trainer with "
        "dynamic padding, grouping by length, fused AdamW, and the number format and attention that are fastest on the "
        "machine, on the same token ids. 12 to 100 steps, five seeds, in alternation.",
        figures=(
            Figure(
                "five workloads: speed-up",
                r".*: speed-up .*over the tuned Trainer",
                "How many times as fast as a well-tuned Trainer, on the workload with the smallest gain?",
            ),
            Figure("mean loss minus the tuned Trainer's", r"(?!squad).*: loss minus the tuned Trainer's, mean"),
        ),
        command="python -m benchmarks.tuning.bench_tuned_trainer [WORKLOAD ...]",
        short="Speed-ups are still in samples: the script counted no tokens. The EPYC's figures but emotion's, and "
        "all with AMX, are from before three tricks were removed. The Xeon without AMX: two rounds, fp32 on both "
        "sides; GPT-2 was not measured. squad's loss depends on the padding and is left out.",
    ),
    "auto": Section(
        measures="MiniLM with what `auto` chooses, against the best fixed combination of precision and attention, in "
        "alternation; on this machine, with one core, and with the instructions of older CPUs.",
        figures=(
            Figure(
                "emotion and squad: `auto` over the best choice",
                r".*: auto / best",
                "In the worst case, how fast is what `auto` chooses, relative to the best fixed settings?",
            ),
        ),
        command="python -m benchmarks.tuning.bench_auto [WORKLOAD ...] [VIEW ...]",
        short="In most of these measurements, `auto` still chose by a trial of real steps; today it follows rules.",
    ),
    "check": Section(
        measures="`trainfare check` on small trainings that are known to be equal: models and data sets that "
        "were not used to choose its tolerances, with one more setting each time; and the billed seconds of a check of "
        "inductor for shipped experiments, on a machine that did nothing else.",
        figures=(
            Figure(
                "equal trainings: false alarms",
                r"pairs of equal trainings: false alarms",
                "Of equal trainings, how many does a check call different?",
            ),
            Figure("largest rate of false alarms", r"pairs of equal trainings: largest rate.*"),
            Figure("largest difference of a loss, fp32", r"pairs in fp32: largest difference of a loss"),
            Figure("largest difference of a gradient, fp32", r"pairs in fp32: largest difference of a gradient"),
            Figure("largest error over stock torch's, bf16", r"pairs in bf16: .*"),
            Figure("billed seconds of a check", r".*: billed seconds"),
        ),
        command="python -m benchmarks.bench_check [pairs] [cost]",
    ),
    "waves": Section(
        measures="Simulated comparisons with looks after 3, 5, 7 and 9 repeats: 2,000 a figure with recorded noise, "
        "and 4,000 in each situation of `benchmarks/recorded/situations.py`, judged without the product's formulas. "
        "The first row of a situation is its share of wrong verdicts. Numbers of jobs are averages.",
        figures=(
            Figure(
                "false verdicts, recorded noise",
                r"false verdicts: recorded noise",
                "How often is one of two equally expensive settings called cheaper or dearer?",
            ),
            Figure("false verdicts, other noise and arms", r"false verdicts: (?!recorded noise$).*"),
            Figure(
                "a gain of 10 % found",
                r"a gain of 10 % found: recorded noise",
                "How often is a gain of 10 % detected?",
            ),
            Figure("... at equal quality", r"a gain of 10 % at equal quality found: (recorded|accuracy).* (seed|0.01)"),
            Figure("jobs of both arms", r"jobs of a comparison .*: recorded noise"),
            Figure("... seed by seed, with quality", r"jobs of a comparison .*: recorded accuracies, seed by seed"),
            Figure("a worse model is called cheaper", r"an arm that costs .* is worse .*"),
            Figure("an arm that fails in 10 or 30 % is called cheaper", r"an arm that fails .*"),
            Figure("spread of recorded cold jobs", r"spread of recorded cold .*"),
            Figure("... of warm ones", r"spread of recorded warm .*"),
            *hard_figures(
                {"": "wrong", "... gain found": "a gain of 10 % found", "... jobs": "jobs with a gain of 10 %"}
            ),
        ),
        short="docs/judging.md says what the misses mean.",
    ),
    "waves_rules_3": Section(
        measures="Wrong verdicts in these situations by version 3 of the rules.",
        figures=hard_figures({"": "wrong"}),
        command="git checkout ec02f90a",
    ),
    "next_job": Section(
        measures="Pairs of recorded jobs of equal settings, averaged by recording. The first is probed, with a "
        "simulated error of its steps; the report's interval is compared with the second's time.",
        figures=(
            Figure("next jobs in the interval, 4 own repeats", r"next jobs held: .* 4 own repeats"),
            Figure("... repeats of another day", r"next jobs held: .* own repeats of another day"),
            Figure("... worst recording", r"next jobs held, worst recording: .* own repeats.*"),
            Figure("one of two equal arms is called the cheapest", r"equal arms, one called .*"),
            Figure("spread of other workloads, worst recording", r"next jobs held, worst .* workloads, idle"),
            Figure("... beside load, mean", r"next jobs held: .* workloads, beside load"),
        ),
        short="The last two rows are why a disturbed probe, or one without own repeats, has no interval.",
    ),
    "probe": Section(
        measures="Billable seconds that a probe projects, over the seconds of the training that follows it: MiniLM, "
        "three rounds. The cost is a share of the training's.",
        figures=(
            Figure("projected over actual", r".*: projected over actual"),
            Figure("cost of the probe", r".*: cost of the probe"),
        ),
        short="A probe takes at least 28 steps: a quarter of these short trainings.",
    ),
    "sweep": Section(
        measures="Sweeps replayed on five recorded grids from every batch size. The cost is a share of the full "
        "grid's, the excess by how much the chosen setting is dearer than the best. Compilers: two, on made-up "
        "surfaces.",
        figures=(
            Figure("grids: cost", r"(?!surfaces|compilers).*: cost until the sweep's own end"),
            Figure("grids: mean excess", r"(?!surfaces|compilers).*: excess of the choice, mean"),
            Figure("grids: excess, 90th percentile", r"(?!surfaces|compilers).*: excess .*, 90th percentile"),
            Figure("surfaces: cost", r"surfaces.*: cost until the sweep's own end"),
            Figure("surfaces: mean excess", r"surfaces.*: excess of the choice, mean"),
            Figure("surfaces: excess, 90th percentile", r"surfaces.*: excess .*, 90th percentile"),
            Figure("compilers: cheapest trials have the wrong one", r"compilers .*: the cheapest trials .*"),
            Figure("compilers: wrong one shown to be cheaper", r"compilers .*: the wrong one is shown .*"),
            Figure("compilers: no verdict", r"compilers .*: no difference is shown"),
            Figure("compilers: right one shown, true gap from 10 %", r"compilers .*: the right one .*"),
            Figure("repeats without this verdict", r"compilers .*: repeats .* the base alone"),
            Figure("repeats with this verdict", r"compilers .*: repeats .* between the compilers"),
        ),
        short="On small grids the start, the best point and its neighbours are half of the points, so the cost misses "
        "0.35. emotion-16000 has two valleys: one choice in ten is a third dearer than the best.",
    ),
    "staging": Section(
        measures="Files of 60 MB and 1.2 GB, each staged in a new process: its peak memory above a process that "
        "stages a few rows, and the first line of progress. The rate is for 100,000 rows of one sentence.",
        figures=(
            Figure("peak memory above idle", r".*: peak memory above idle"),
            Figure("first line of progress", r".*: first line of progress"),
            Figure("rate over the tokenizer's", r"staging / tokenizer alone"),
        ),
    ),
    "following": Section(
        measures="One `compare` follows 200 jobs of 120 steps, about 1 s apart, through SageMaker's API. The account "
        "is the tests' server, on the same machine.",
        figures=(
            Figure("jobs created", r"jobs created"),
            Figure("calls in the busiest 10 s", r"calls while following"),
            Figure("CPU of the launcher", r"CPU of the launcher"),
            Figure("memory of the launcher", r"memory of the launcher"),
            Figure("values lost", r"points lost", "How many values of metrics were lost while 200 jobs ran at once?"),
            Figure("values logged twice", r"points logged twice"),
        ),
    ),
    "slurm": Section(
        measures="Groups of 8 to 12 small jobs on a real Slurm cluster of this machine. The launcher, the script or "
        "the supervisor of a job is killed, or Slurm requeues the job, at random moments. Then MLflow, Slurm's queue, "
        "the processes and the notes of each attempt are compared. The overhead of a job is what its script does not "
        "take, in alternation: from the start of its run to the line that reports its end; of plain `sbatch`, from the "
        "command to the end of the allocation.",
        figures=(
            Figure("kills and requeues, of each kind", r".*: done"),
            Figure("jobs lost", r".*: lost", "How many jobs on Slurm are lost by kills and requeues?"),
            Figure("jobs run or recorded twice", r".*: doubled", "How many of them run twice?"),
            Figure("jobs billed for more than they ran", r".*: billed twice"),
            Figure("processes and jobs of Slurm left", r".*: left"),
            Figure(
                "overhead beyond plain `sbatch`",
                r"slurm: overhead beyond plain sbatch",
                "How many seconds does a job on Slurm take beyond Slurm's own part?",
            ),
            Figure("overhead on Slurm", r"slurm: overhead"),
            Figure("... of plain `sbatch`", r"plain sbatch: overhead"),
            Figure("... on this machine", r"local: overhead"),
            Figure("... from `sbatch` to the allocation", r"slurm: from sbatch to the allocation"),
            Figure("... from the allocation to the script", r"slurm: from the allocation to the script"),
            Figure("... from the job's end to its record", r"slurm: from the job's end to its record"),
        ),
        command="python -m benchmarks.slurm [PART ...]",
    ),
    "gpu-workloads": Section(
        measures="The published models in their real sizes, from random weights, for 25 steps: the recipe in fp16 "
        "against our defaults uncompiled, with inductor, and with CUDA graphs. A gain is the range of these three, in "
        "real tokens per second.",
        figures=(
            Figure(
                "squad-albert: gain",
                r"squad-albert, .*: gain in real tokens",
                "How many times as fast as the recipe is ALBERT on SQuAD on a GPU, even uncompiled?",
            ),
            Figure("roberta-large-mnli: gain", r"roberta-large-mnli, .*: gain in real tokens"),
            Figure("four others: gain", r"(?!squad-albert|roberta).*: gain in real tokens"),
            Figure("all six: gain in samples", r".*: gain in samples"),
            Figure(
                "CUDA graphs over inductor's default mode", r".*, ours with CUDA graphs: speed over the default mode"
            ),
            Figure(
                "max-autotune over the default mode",
                r".*, ours autotuned: speed over the default mode",
                command="make accept-gpu ONLY=NAME-autotuned",
            ),
            Figure(
                "five-seed losses: ours minus the recipe's",
                r".*: eval_loss of ours uncompiled .*, mean",
                command="make accept-gpu ONLY=NAME-losses",
            ),
            Figure(
                "seeds compared",
                r".*: seeds with the losses of both sides",
                command="make accept-gpu ONLY=NAME-losses",
            ),
            Figure("one-seed losses minus the recipe's", r".*: eval_loss minus the recipe's"),
        ),
        command="make accept-gpu ONLY=NAME",
        short="The H100's tokens follow from its utilisation; the H200's are unknown. One run can mislead: at one "
        "commit, emotion-bert reached 398 and 1,030 samples/s with CUDA graphs, and 492 in the default mode.",
    ),
    "gpu-profile": Section(
        measures="A training step at the published batch size, by CUDA events, profiler and counted operations: our "
        "defaults against the recipe, and against the tuned Trainer with the same compiler, on the same rows.",
        figures=(
            Figure("waits of ours in a step", r".*, ours.*: synchronisations"),
            Figure("reads of device values in a step of ours", r".*, ours.*: reads of device values"),
            Figure("clipping, optimizer and loop of ours", r".*, ours.*: optimizer and loop"),
            Figure("gain over the recipe", r".*: gain over recipe"),
            Figure("gain over the tuned Trainer", r".*: gain over tuned Trainer.*"),
            Figure("gain of CUDA graphs over inductor", r".*: gain over ours, inductor"),
            Figure("speed of two data workers over none", r".*: gain over ours"),
            Figure("BERT large, 4 x 384: ours", r"bert-large-squad-dp, ours.*: samples"),
            Figure("kernels of ours, uncompiled", r".*, ours: kernel count"),
            Figure("time of these kernels", r".*, ours: kernel time"),
        ),
        command="make gpu-profile WORKLOAD=NAME",
    ),
    "tasks": Section(
        measures="Each task against the program that people usually write for it (`benchmarks/opponents`: a plain "
        "Trainer, Seq2SeqTrainer, TRL, sentence-transformers), with the same rows and settings, fp32, no compiler, in "
        "turns. Memory is the process's peak.",
        figures=(
            Figure(
                "speed over the usual program, lower end",
                r".*: lower end of the ratio's 95 % interval",
                "Is a job slower than the program that people write for the same task?",
            ),
            *(
                Figure(f"{words}: {label}", f"{name}{rows}")
                for name, words in PROGRAMS.items()
                for label, rows in {
                    "speed over the usual program": ": speed over the usual program",
                    "peak memory, ours": ", ours: peak memory",
                    "peak memory, usual program": ", usual program: peak memory",
                }.items()
            ),
        ),
        command="python -m benchmarks.opponents.bench_tasks [NAME ...]",
        short="A round is a pair of processes that take turns of a few steps on the same batches. Eight rounds, four "
        "with TRL. TRL joins the packed rows of a batch to one, which is slow without FlashAttention.",
    ),
    "gpu-sweep": Section(
        measures="Billable seconds to a target: the lowest loss of one training of the published recipe plus 5 % "
        "(GPT-2: 1 %). A sweep of batch sizes 8 to 1,024, two rules for the rate and two compilers; then its best "
        "settings against the recipe.",
        figures=(
            Figure(
                "minilm-emotion: winner over the recipe",
                r"minilm-emotion, .* over the recipe: the winner",
                "What does the winner of a sweep on a GPU cost, over the published recipe?",
            ),
            *(
                Figure(f"{name}: winner over the recipe", rf"{name}, .* over the recipe: the winner")
                for name in ("minilm-tweets", "bert-sst2", "gpt2-sst2")
            ),
            Figure("adapters: over full fine-tuning", r"adapters, .* over full: .*"),
            Figure("other compiler's best over it", r".* over the recipe: another compiler"),
            Figure("recipe", r".*, recipe: repeats"),
            Figure("best of each compiler", r".*, (?!recipe)\w+: repeats"),
            Figure("base models, found settings: utilisation", r"(bert|gpt2)-.*: utilisation, found"),
        ),
        command="make gpu-sweep WORKLOAD=NAME",
        short="The recipe pads emotion and tweets to 512 tokens, SST-2 to 128. `adapters` compares full fine-tuning, "
        "LoRA at two ranks, a frozen body and, with bitsandbytes, QLoRA.",
    ),
    "gpu-paths": Section(
        measures="A short training for each precision, attention, optimizer, compiler mode and sharding. Its device, "
        "settings, loss and memory are checked; a job that does not complete is one failed check.",
        figures=(
            Figure("all other paths tried", r"(?!two-gpus|flash-attention|compile-(max|no-)).*: .*"),
            Figure("compile-max-autotune, compile-no-cudagraphs", r"compile-(max-autotune|no-cudagraphs): .*"),
            Figure("flash-attention (FlashAttention 2, package flash-attn)", r"flash-attention: .*"),
            Figure("two-gpus", r"two-gpus: .*"),
            Figure("two-gpus-sharded (FSDP2)", r"two-gpus-sharded: .*"),
        ),
        command="make accept-gpu ONLY=NAME",
        short="The two autotuned paths ended at their limit of 299 s, beside four other jobs. What they tune is now "
        "kept, so the command can be repeated until they end.",
    ),
}
"""Sections in the order of the page, by the name of their result file."""

INTRODUCTION = """\
# Benchmarks

The benchmarks generate this page (`benchmarks/support/results.py`). Do not edit it.

{summary}

Each section is one benchmark. `python -m benchmarks` runs all that need neither a GPU nor Slurm. All figures, with
spreads, versions and notes, are in `benchmarks/results/<section>.json`. A value is a median, or the range of several
figures. Speeds are compared only within one run on one machine; the CPUs have two cores.
"""


def page() -> str:
    """Return the content of docs/benchmarks.md, generated from the result files."""
    results = {name: recorded(name) for name in SECTIONS}
    sections = (line for name, section in SECTIONS.items() for line in _section_lines(name, section, results[name]))
    return "\n".join([INTRODUCTION.replace("{summary}", _summary(results)), *sections]) + "\n"


def _summary(results: Mapping[str, Sequence[Result]]) -> str:
    """Return the table of the answers, one for each kind of machine."""
    lines = ["| question | answer | target | met | machine |", "| --- | ---: | --- | --- | --- |"]
    for name, section in SECTIONS.items():
        for figure in section.figures:
            if not figure.question:
                continue
            found = [
                (min(rows, key=itemgetter("value")), _machine(each))
                for each in results[name]
                if (rows := _rows(figure, each))
            ]
            columns = (
                [_text(row["value"], row["unit"]) for row, _ in found],
                [row["target"] for row, _ in found],
                ["yes" if row["met"] else "**no**" for row, _ in found],
                [machine for _, machine in found],
            )
            cells = " | ".join("<br>".join(column) for column in columns) if found else "not measured | | |"
            lines.append(f"| [{figure.question}](#{name}) | {cells} |")
    return "\n".join(lines)


def _section_lines(name: str, section: Section, results: Sequence[Result]) -> list[str]:
    command = section.command or f"python -m benchmarks {name}"
    lines = [f"## {name}", "", section.measures, "", f"    {command}", ""]
    heads = [f"{_machine(each)}, {each['date']}, {each['commit'][:7]}" for each in results]
    table = [f"| | target | {' | '.join(heads)} |", "| --- | --- |" + " ---: |" * len(heads)]
    missing: dict[str, list[str]] = {}
    for figure in section.figures:
        found = [_rows(figure, each) for each in results]
        if not any(found):
            missing.setdefault(figure.command or command, []).append(figure.label)
            continue
        targets = dict.fromkeys(
            row["target"].split(":")[0] for rows in reversed(found) for row in rows if row["target"]
        )
        not_measured = f"not measured: `{figure.command}`" if figure.command else "not measured"
        cells = [_cell(rows) if rows else not_measured for rows in found]
        table.append(f"| {figure.label} | {' or '.join(targets)} | {' | '.join(cells)} |")
    if results:
        lines += [*table, ""]
    lines += [line for by, labels in missing.items() for line in (f"Not measured (`{by}`): {'; '.join(labels)}.", "")]
    return [*lines, *([section.short, ""] if section.short else [])]


def _rows(figure: Figure, result: Result) -> list[Mapping[str, Any]]:
    return [row for row in result["rows"] if re.fullmatch(figure.rows, row["name"])]


def _cell(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the value or the range of a figure on one kind of machine, and how many targets were missed."""
    low, high = (pick(row["value"] for row in rows) for pick in (min, max))
    text = _text(high, rows[0]["unit"])
    missed = sum(row["met"] is False for row in rows)
    if f"{low:.3g}" != f"{high:.3g}":
        text = f"{low:.4g} to {text}"
    if missed:
        text += " (**missed**)" if len(rows) == 1 else f" (**{missed} of {len(rows)} missed**)"
    return text


def _text(value: float, unit: str) -> str:
    return f"{value:.4g} {unit}".strip()


def _machine(result: Result) -> str:
    """Return the name of a result's kind of machine."""
    machine = result["machine"]
    processor = machine["processor"].replace("(R)", "").removesuffix(" Processor")
    instructions = machine.get("instructions")
    name: str = machine["gpu"] or (f"{processor} with {instructions}" if instructions else processor)
    return name


_INSTRUCTIONS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 and bf16", "avx512f": "AVX-512", "avx2": "AVX2"}
"""CPU flags and their names on the page, fastest first. Processors with the same name can have different flags."""


@dataclass(frozen=True, kw_only=True)
class Row:
    name: str
    value: float
    unit: str
    spread: float | None = None
    """In `unit`: half of the interquartile range of a median, or half of the 95 % interval of a mean; else None."""
    n: int = 1
    target: str | None = None
    """Description of the target. It always refers to something measured in the same run."""
    met: bool | None = None


def figure(
    name: str,
    values: float | Sequence[float],
    unit: str,
    *,
    least: float | None = None,
    most: float | None = None,
    n: int | None = None,
) -> Row:
    """Return a row with a value, or the median and the spread of several. The target is `least`, `most` or both.

    `n` is the number of measurements behind a single value.
    """
    numbers = list(values) if isinstance(values, Sequence) else [values]
    value = statistics.median(numbers)
    quartiles = statistics.quantiles(numbers, n=4, method="inclusive") if len(numbers) > 1 else None
    bounds = [f"at {word} {limit:.4g}" for word, limit in (("least", least), ("most", most)) if limit is not None]
    is_met = (least is None or value >= least) and (most is None or value <= most)
    return Row(
        name=name,
        value=value,
        unit=unit,
        spread=(quartiles[2] - quartiles[0]) / 2 if quartiles else None,
        n=n or len(numbers),
        target=f"{' and '.join(bounds)} {unit}".strip() if bounds else None,
        met=is_met if bounds else None,
    )


LOSS_MARGIN = 0.02
"""Nats by which a mean loss may be higher, by the rule of non-inferiority."""


def loss_row(name: str, ours: Sequence[float], theirs: Sequence[float], *, has_target: bool = True) -> Row | None:
    """Return the mean difference of the losses, in nats, of pairs with the same seed; None with fewer than two pairs.

    Its spread is half of the 95 % interval of the mean.
    """
    if len(ours) < 2:
        return None
    mean = mean_estimate([our - their for our, their in zip(ours, theirs, strict=True)])
    low, high = mean.ends()
    return Row(
        name=name,
        value=mean.value,
        unit="nats",
        spread=(high - low) / 2,
        n=len(ours),
        target=f"shown to be at most {LOSS_MARGIN} higher: the 95 % interval ends there or below"
        if has_target
        else None,
        met=high <= LOSS_MARGIN if has_target else None,
    )


def write(
    name: str, rows: Sequence[Row], notes: Sequence[str] = (), *, appends: bool = False, quiet: bool = False
) -> None:
    """Write `benchmarks/results/<name>.json`, print the rows, and regenerate docs/benchmarks.md.

    The file is complete at any time, so a command that writes after each measurement loses nothing when it is cut off.
    `merged` says which earlier rows are kept.
    """
    import torch  # takes seconds

    here = environment()
    try:
        flags = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        flags = set()
    # Results of benchmarks do not change what runs.
    others = (f":!{path.relative_to(ROOT)}" for path in (FOLDER, PAGE))
    command = ["git", "status", "--porcelain", "--", ".", *others]
    changes = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    machine = {
        **here["machine"],
        "instructions": next((name for flag, name in _INSTRUCTIONS.items() if flag in flags), ""),
        "python": here["python"],
        "packages": here["packages"],
        "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
    }
    result: dict[str, Any] = {
        "machine": machine,
        "commit": here["git"]["commit"] or "no checkout",
        "dirty": bool(changes),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "notes": list(notes),
        "rows": [asdict(row) for row in rows],
    }
    content = json.dumps(merged(recorded(name), result, appends=appends), indent=1, ensure_ascii=False) + "\n"
    _replace(FOLDER / f"{name}.json", content)
    for row in () if quiet else rows:
        target = f"  (target {row.target}: {'met' if row.met else 'MISSED'})" if row.target else ""
        error = "" if row.spread is None else f" ± {row.spread:.3g}"
        print(f"  {row.name}: {row.value:.4g} {row.unit}{error}{target}")
    _replace(PAGE, page())


def recorded(name: str) -> list[Result]:
    """Return the results of one section: none if nothing has been measured yet."""
    file = FOLDER / f"{name}.json"
    results: list[Result] = json.loads(file.read_text()) if file.exists() else []
    return results


def _replace(file: Path, content: str) -> None:
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(content)
    unfinished.replace(file)


def merged(earlier: Sequence[Result], result: Result, *, appends: bool = False) -> list[Result]:
    """Return the results of a file after a new result, which comes first.

    Rows of the same machine and commit stay, unless the new result has rows of the same names; so do notes, unless it
    has rows of the same subject, which both name before a colon. Results of other commits from the same kind of
    machine are replaced; with `appends`, for commands that measure a part each, only their rows of the same names are.
    """
    names, first, others = {row["name"] for row in result["rows"]}, dict(result), []
    subjects = {name.partition(":")[0] for name in names}
    for before in earlier:
        if not is_same_kind(before["machine"], result["machine"]):
            others.append(before)
            continue
        rows = [row for row in before["rows"] if row["name"] not in names]
        if all(before[key] == result[key] for key in ("machine", "commit")):
            first["rows"], first["dirty"] = rows + first["rows"], before["dirty"] or first["dirty"]
            notes = [each for each in before["notes"] if each.partition(":")[0] not in subjects]
            first["notes"] = [*dict.fromkeys([*notes, *first["notes"]])]
        elif appends and rows:
            others.append({**before, "rows": rows})
    return [first, *others]


def is_same_kind(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether two machines are of one kind. Older results do not record the CPU's
    instructions: a missing value equals any."""
    instructions = {first.get("instructions"), second.get("instructions")} - {None}
    return (first["processor"], first["gpu"]) == (second["processor"], second["gpu"]) and len(instructions) <= 1
