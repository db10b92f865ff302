"""The budget of a group, and its end, as tags of the group's run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from tracking.groups.group import Group
from tracking.server.store import Store
from training.services.budget import Amount, Budget, amount_text, budget_text

BUDGET = "platform.budget"
"""Tag of a group's run with its budget."""
BUDGET_END = "platform.budget_end"
"""Tag of the run of a group that its budget ended."""


@dataclass(frozen=True, kw_only=True)
class GroupBudget:
    """Budget of a group, as its latest command set it."""

    budget: Budget
    least_seconds: float | None = None
    """Shortest useful time limit of a job about which nothing is known, in seconds."""


@dataclass(frozen=True, kw_only=True)
class BudgetEnd:
    """State of a budget when it ended its group."""

    budget: Budget
    spent: Amount
    """Cost of all jobs."""
    not_started: int | None
    """Jobs that were due and did not fit; None if their number is not known."""

    @property
    def left(self) -> Budget:
        """Part of the budget that was not spent."""
        return self.budget.left(self.spent)


_BUDGET = TypeAdapter(GroupBudget)
_END = TypeAdapter(BudgetEnd)


def set_budget(store: Store, group: Group, budget: GroupBudget) -> None:
    """Write the budget of a group, unless it has no limits: then an earlier command's budget remains."""
    earlier = group_budget(store, group)
    tags = {BUDGET: _BUDGET.dump_json(budget if budget.budget.is_limited else earlier).decode(), BUDGET_END: ""}
    if budget.budget.is_limited or earlier.budget.is_limited:
        store.tag(group.run_id, tags)


def group_budget(store: Store, group: Group) -> GroupBudget:
    """Return the budget of a group. A run that continues an earlier parent run may not have the tag yet."""
    tags = store.call(store.client.get_run, group.run_id).data.tags
    if BUDGET not in tags and group.continued:
        query = f"tags.\"platform.group\" = '{group.id}' and tags.\"platform.kind\" = 'group'"
        order = ["attributes.start_time DESC"]
        runs = store.call(store.client.search_runs, [group.experiment_id], query, order_by=order)
        tags = next((run.data.tags for run in runs if BUDGET in run.data.tags), {})
    return _BUDGET.validate_json(tags[BUDGET]) if BUDGET in tags else GroupBudget(budget=Budget())


def set_budget_end(store: Store, group: Group, end: BudgetEnd) -> None:
    """Record that the budget ended the group."""
    store.tag(group.run_id, {BUDGET_END: _END.dump_json(end).decode()})


def read_budget_end(tags: Mapping[str, str]) -> BudgetEnd | None:
    """Return the state of the budget that ended a group; None if none did, or if the tag is damaged."""
    try:
        return _END.validate_json(tags[BUDGET_END]) if tags.get(BUDGET_END) else None
    except ValidationError:
        return None


def end_sentence(end: BudgetEnd) -> str:
    """Return the statement that the budget ended the group, with the spent and the remaining part."""
    due = "1 job that was due" if end.not_started == 1 else f"{end.not_started or 'further'} jobs that were due"
    return (
        f"The budget of {budget_text(end.budget)} ended this early: {due} did not start, because they did not "
        f"certainly fit. {amount_text(end.spent, end.budget)} spent, {budget_text(end.left)} left."
    )
