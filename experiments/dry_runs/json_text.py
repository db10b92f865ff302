"""A plan as JSON, with the requests exactly as they would be sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from experiments.planning.command_plan import CommandPlan, JobEntry
from reports.formats.summary import json_value
from training.contract.budget import Amount


def json_text(plan: CommandPlan) -> str:
    """Return the plan as JSON text."""
    return json.dumps(json_value(_fields(plan)), indent=1, ensure_ascii=False)


def _fields(plan: CommandPlan) -> dict[str, Any]:
    first = plan.first_jobs
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
        "looks": list(plan.design.looks) if plan.design else None,
        "parallel": plan.parallel,
        "expected": {"at_least": _expected(first), "at_most": _expected(plan.jobs)},
        "worst_case": _amount(plan.worst.amount) if plan.worst else None,
        "budget": plan.budget,
        "jobs": [_job(each) for each in plan.jobs],
        "search": asdict(plan.search) if plan.search else None,
        "endpoint": asdict(plan.endpoint) if plan.endpoint else None,
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
        "batch_size": entry.batch_size,
        "global_batch_size": entry.global_batch_size,
        "learning_rate": entry.learning_rate,
        "size": asdict(entry.size) if entry.size else None,
        "price": asdict(planned.price) if planned.price else None,
        "expected": asdict(entry.expected) if entry.expected else None,
        "worst_case": _amount(entry.worst),
        "runtime": entry.runtime,
        "estimated_fields": entry.estimated,
        "request": entry.request,
    }


def _amount(amount: Amount) -> dict[str, Any]:
    return {"billable_instance_seconds": amount.seconds, "usd": amount.usd}


def _expected(jobs: Sequence[JobEntry]) -> dict[str, Any] | None:
    """Return the expected cost of some jobs together, or None if that of any is unknown."""
    costs = [job.expected for job in jobs if not job.planned.is_again]
    known = [cost for cost in costs if cost is not None]
    if not known or len(known) < len(costs):
        return None
    usd = None if any(cost.usd is None for cost in known) else sum(cost.usd or 0.0 for cost in known)
    sources = list(dict.fromkeys(cost.source for cost in known))
    return {"billable_instance_seconds": sum(cost.seconds for cost in known), "usd": usd, "sources": sources}
