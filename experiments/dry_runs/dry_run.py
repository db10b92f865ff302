"""Plan a command, print the plan, and return the exit code that the command would have."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.dry_runs.json_text import json_text
from experiments.dry_runs.plan_deploy import plan_deploy
from experiments.dry_runs.plan_jobs import plan_jobs
from experiments.dry_runs.scratch_state import scratch_state
from experiments.dry_runs.text import print_plan
from experiments.running.options import one_of
from experiments.running.output import print_line
from training.state.home import home


def dry_run(verb: str, fields: Mapping[str, str]) -> int:
    """Print the plan of a verb with these fields, and change nothing.

    Returns 0 if the command would start, else the exit code with which it would end.
    """
    fields = dict(fields)
    chosen = one_of("format", fields.pop("format", "text"), ("text", "json"))
    with scratch_state(home()) as state:
        plan = plan_deploy(fields, state) if verb == "deploy" else plan_jobs(verb, fields, state)
    if chosen == "json":
        print_line(json_text(plan))
    else:
        print_plan(plan)
    return plan.exit_code
