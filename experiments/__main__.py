"""The command line: the verbs behind MLproject."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from experiments.running.output import remark
from training.contract.errors import InputError, TrainfareError, nearest

HELP = """\
trainfare: which setting trains this model for the fewest billable seconds, and how sure are we?

  python -m experiments VERB [--experiment NAME] [--FIELD VALUE ...]

verbs
  train      train one job
  compare    train every arm of the experiment, repeat with other seeds, and report
  probe      train the beginning of every arm, until it is certain how long each would take and what it would cost
  sweep      search batch sizes and learning rates under each compiler, and judge the winner on repeats
  attach     follow a group that another command started, here or elsewhere: --group ID
  report     report on tracked jobs: the latest of --experiment, --group ID, or any --runs A,B,...;
             --overview true: on all groups of an MLflow experiment, and what they cost
  register   make a trained model a version of its experiment's registered model, with the alias of the one in use:
             the winner of the latest group of --experiment, of --group ID, or --run RUN
  deploy     serve a trained model: --run RUN or --model FOLDER, --service local, or sagemaker with --machine TYPE
  predict    ask an endpoint: --endpoint NAME and --text TEXT or --inputs JSON; or answer a whole --file with --run RUN
  undeploy   delete an endpoint: --endpoint NAME, or --all true
  endpoints  list them, with what they have cost so far
  ui         MLflow's UI on the runs of --experiment, or of the latest command
  jobs       list | stop NAME | stop --group ID | log NAME: the jobs of this machine, or --service sagemaker's
             prune [--older-than 7d] [--what KINDS] [--group ID] [--yes]: delete what no run refers to any more

  --wait false starts the jobs of train or compare and leaves them; the same command without it follows them

fields
  Any field of the experiment, nested ones with dots:
    --compiler inductor  --batch_size 32  --data.train reviews.jsonl  --machine.cores 1
  --backend_config FILE lays a file's service, machine and aws over the experiment.
  experiments/*.yaml are the experiments; --experiment also takes a path.

The same verbs run as MLflow projects, with -P for each field:
  mlflow run . -e train -P experiment=demo -P compiler=inductor -P batch_size=32 --env-manager local
"""

SERVING_VERBS = ("deploy", "predict", "undeploy", "endpoints")
VERBS = ("train", "compare", "probe", "sweep", "attach", "report", "register", *SERVING_VERBS, "ui", "jobs")


def main(arguments: Sequence[str]) -> int:
    """Run a verb and return the exit code: 0 done, 1 a job or a server failed, 2 wrong input, 130 interrupted."""
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        print(HELP)
        return 0
    try:
        if arguments[0] in VERBS and arguments[0] != "undeploy":
            from experiments.deployments.expired_endpoints import look_after

            look_after()
        return _dispatch(arguments[0], arguments[1:])
    except TrainfareError as error:
        remark(" ".join(map(str, ("error:", error, *getattr(error, "__notes__", ())))))
        return error.exit_code
    except KeyboardInterrupt as end:
        remark(" ".join(("interrupted.", *getattr(end, "__notes__", ()))))
        return 130


def _dispatch(verb: str, rest: Sequence[str]) -> int:
    # Each verb imports what it needs: --help and a typo answer at once.
    if verb in {"train", "compare", "probe"}:
        from experiments.running.launch import launch

        return launch(verb, fields(rest))
    if verb == "sweep":
        from experiments.commands.sweep import sweep

        return sweep(fields(rest))
    if verb == "report":
        from experiments.running.write_report import report

        return report(fields(rest))
    if verb == "register":
        from experiments.commands.register import register

        return register(fields(rest))
    if verb == "attach":
        from experiments.commands.attach import attach

        return attach(fields(rest))
    if verb == "ui":
        from experiments.commands.ui import ui

        return ui(fields(rest))
    if verb == "jobs":
        from experiments.commands.jobs import main as jobs

        return jobs(rest)
    if verb in SERVING_VERBS:
        return _serving(verb, fields(rest))
    raise InputError(f"unknown verb '{verb}': it must be one of {', '.join(VERBS)}.{nearest(verb, VERBS)}")


def _serving(verb: str, given: Mapping[str, str]) -> int:
    if verb == "deploy":
        from experiments.commands.deploy import deploy

        return deploy(given)
    if verb == "predict":
        from experiments.commands.predict import predict

        return predict(given)
    if verb == "undeploy":
        from experiments.commands.undeploy import undeploy

        return undeploy(given)
    from experiments.commands.endpoints import endpoints

    return endpoints(given)


def fields(arguments: Sequence[str]) -> Mapping[str, str]:
    """Return `--name value` and `--name=value` pairs as a mapping.

    Values may begin with a hyphen (a negative number, say), so a name always takes what follows it.
    """
    found: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        name = rest.pop(0)
        if not name.startswith("--") or name == "--":
            raise InputError(f"unexpected argument '{name}': fields are given as --name value.")
        name, equals, value = name[2:].partition("=")
        if not equals:
            if not rest:
                raise InputError(f"--{name} has no value: fields are given as --name value.")
            value = rest.pop(0)
        if name in found:
            raise InputError(f"--{name} is given twice, as '{found[name]}' and as '{value}'.")
        found[name] = value
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
