"""A plan as JSON, with the requests exactly as they would be sent."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from experiments.dry_runs.cost_text import expected_of_search, expected_total
from experiments.planning.command_plan import CommandPlan, JobEntry
from reports.formats.figures import json_value
from training.contract.budget import Amount


def json_text(plan: CommandPlan) -> str:
    """Return the plan as JSON text."""
    return json.dumps(json_value(_fields(plan)), indent=1, ensure_ascii=False)


def _fields(plan: CommandPlan) -> dict[str, Any]:
    return {
        "verb": plan.verb,
        "name": plan.name,
        "service": plan.service,
        "would_start": plan.exit_code == 0,
        "exit_code": plan.exit_code,
        "refusals": [asdict(each) for each in plan.refusals],
        "notes": plan.notes,
        "resumes": plan.resumes,
        "inputs": [asdict(each) for each in plan.inputs],
        "uploads": [{"uri": uri, "bytes": size} for uri, size in plan.uploads.items()],
        "new_bucket": plan.new_bucket,
        "looks": plan.design and plan.design.looks,
        "quality": plan.quality or None,
        "parallel": plan.parallel,
        "expected": _expected(plan),
        "worst_case": plan.worst and _amount(plan.worst.amount),
        "budget": plan.budget,
        "jobs": [_job(each) for each in plan.jobs],
        "search": plan.search and asdict(plan.search),
        "endpoint": plan.endpoint and asdict(plan.endpoint),
    }


def _job(entry: JobEntry) -> dict[str, Any]:
    planned = entry.planned
    return {
        "name": planned.spec.name,
        "title": planned.run_name,
        "arm": planned.arm,
        "repeat": planned.repeat,
        "role": planned.tags.get("platform.role"),
        "seed": entry.seed,
        "batch_size": entry.experiment.batch_size,
        "global_batch_size": entry.experiment.global_batch_size,
        "learning_rate": entry.experiment.optimiser.learning_rate,
        "size": entry.size and asdict(entry.size),
        "price": planned.price and asdict(planned.price),
        "expected": entry.expected and asdict(entry.expected),
        "spot": entry.spot and asdict(entry.spot),
        "worst_case": _amount(entry.worst),
        "runtime": entry.runtime,
        "estimated_fields": entry.estimated,
        "request": entry.request,
    }


def _amount(amount: Amount) -> dict[str, Any]:
    return {"billable_instance_seconds": amount.seconds, "usd": amount.usd}


def _expected(plan: CommandPlan) -> dict[str, Any]:
    """Return the expected cost up to the first look and of all jobs; None where that of any job is unknown."""
    if plan.search:
        search = expected_of_search(plan)
        return {"at_least": None, "at_most": search and asdict(search[1])}
    costs = {"at_least": expected_total(plan.first_jobs), "at_most": expected_total(plan.jobs)}
    return {name: cost and asdict(cost) for name, cost in costs.items()}
