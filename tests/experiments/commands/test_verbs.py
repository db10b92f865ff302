"""The command line as a whole: help, version, completion, unknown names, and exit codes."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest
import yaml

from experiments.__main__ import NOT_IN_MLPROJECT, VERBS, cli, main
from experiments.commands.verb import read_fields
from tests.conftest import ROOT
from tests.support.answers import checked
from training.contract.errors import InputError

JOBS_VERBS = ("list", "stop", "log", "prune")
COMMANDS = [(), *((verb,) for verb in VERBS), *(("jobs", verb) for verb in JOBS_VERBS)]


def verb(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_verb_has_help_with_options_and_an_example(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "-h"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: {' '.join(('trainfare', *command))} ")
    assert "--help" in shown
    assert shown.partition("Examples:")[2].split()[:1] == ["trainfare"]


def test_help_is_shown_without_arguments_and_among_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([]) == 0
    without = capsys.readouterr().out
    assert main(["help"]) == 0
    assert capsys.readouterr().out == without
    for name in VERBS:
        assert f"\n  {name} " in without
    assert "..." not in without.partition("Commands:")[2].partition("\n\n")[0]
    for words in (["help", "compare"], ["compare", "--data.train", "x.jsonl", "--help"]):
        assert main(words) == 0
        assert capsys.readouterr().out.startswith("Usage: trainfare compare ")


def test_all_verbs_but_those_named_in_the_help_are_mlflow_entry_points() -> None:
    entry_points = yaml.safe_load((ROOT / "MLproject").read_text())["entry_points"]
    for entry_point in entry_points.values():
        python, module, package, name, *_ = entry_point["command"].split()
        assert (python, module, package) == ("python", "-m", "experiments")
        assert name in VERBS
    assert entry_points.keys() - {"main"} == set(VERBS) - set(NOT_IN_MLPROJECT)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "unknown command 'trian': it must be one of train, compare, .* Did you mean 'train'?"),
        (["jobs", "lst"], "unknown command 'jobs lst': it must be one of list, stop, log, prune. Did you mean 'list'?"),
        (["jobs", "--service", "sagemker"], "jobs: Invalid value for '--service': 'sagemker' is not one of"),
        (["jobs", "stop"], "jobs stop needs one job name, or --group ID."),
        (["jobs", "log"], "jobs log: Missing argument 'NAME'."),
        (["jobs", "prune", "--older-than", "7"], "--older-than is '7': it must be a number of hours or days, such as"),
        (["jobs", "--service", "sagemaker", "prune"], "--service is 'sagemaker': jobs prune deletes only local state."),
        (["register", "--run", "a", "--group", "b"], "--run and --group cannot be combined"),
        (["report", "--runs", " , "], "runs is empty: name runs, jobs or groups, separated by commas."),
        (["report", "--runs", "a", "--group", "b"], "--runs and --group cannot be combined"),
        (["report", "--overview", "--baseline", "none"], "--overview and --baseline cannot be combined"),
        (["report", "--allow", "sample"], "--allow contains 'sample': it may contain data, samples, target, image, .*"),
        (["sft"], "it must be one of train, compare, .* Set task to 'chat': see docs/tasks.md"),
        (["report", "--wandb", "x"], "unknown field 'wandb' of report: .* Jobs report to MLflow"),
        (["report", "--grup", "x"], "unknown field 'grup' of report: it must be one of .* Did you mean 'group'?"),
        (["train", "--compilr", "none"], "unknown field 'compilr' (override compilr=none). Did you mean 'compiler'?"),
        (["train", "demo"], "unexpected argument 'demo': write fields as --name value."),
        (["train", "--compiler"], "--compiler has no value: write fields as --name value."),
        (["train", "--seed", "1", "--seed=2"], "--seed is set twice, to '1' and to '2'."),
        (
            ["sweep", "--fail-on", "dear"],
            "--fail-on contains 'dear': it may contain dearer, worse, inconclusive, failed.",
        ),
        (["train", "--wait", "maybe"], "--wait is 'maybe': it must be true or false."),
        (["train", "--dry-run"], "--dry-run has no value: .* Use `trainfare plan VERB` with the same options."),
        (["plan", "--format", "xml"], "--format is 'xml': it must be one of text, json."),
        (
            ["plan", "trian"],
            "plan trian: the verb must be one of compare, train, check, probe, .* Did you mean 'train'?",
        ),
    ],
)
def test_wrong_input_is_reported_in_one_sentence_with_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
    for part in message.split(".*"):
        assert part in shown.err


def test_an_error_is_the_answer_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["train", "--compilr", "none", "--format=json"], ["jobs", "stop", "--format", "json"]):
        assert main(words) == 2
        shown = capsys.readouterr()
        assert shown.err == f"error: {checked('error', shown.out)['error']}\n"


def test_a_field_takes_the_argument_after_it_unless_it_is_a_flag() -> None:
    assert read_fields(["--trust", "--group", "3"]) == {"trust": "true", "group": "3"}
    assert read_fields(["--trust", "false", "--group=3"]) == {"trust": "false", "group": "3"}
    assert read_fields(["--a.b", "-5", "--c=--d", "--e", "--f", "--g="]) == {
        "a.b": "-5",
        "c": "--d",
        "e": "--f",
        "g": "",
    }
    with pytest.raises(InputError, match="unexpected argument '-x'"):
        read_fields(["-x", "1"])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("trainfare jobs pr", "prune"),
        ("trainfare compare --compare.rep", "--compare.repeats"),
        ("trainfare train --compiler none --seed 1 --experiment dem", "demo"),
    ],
)
def test_shell_completion(words: str, expected: str) -> None:
    variables = {"_TRAINFARE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    command = [sys.executable, "-m", "experiments"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert f"plain,{expected}" in done.stdout.splitlines()
