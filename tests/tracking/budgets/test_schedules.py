"""A budget holds whatever launchers do: 200 random schedules with kills at every step."""

from __future__ import annotations

import pytest

from tests.support.tracking.budget_schedules import Schedule


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_no_schedule_exceeds_its_budget(first: int) -> None:
    kills = created = refused = 0
    for seed in range(first, first + 20):
        schedule = Schedule(seed)
        schedule.run()
        assert schedule.budget.allows(schedule.most), f"seed {seed}: {schedule.most} of {schedule.budget}"
        kills, created = kills + schedule.kills, created + len(schedule.created)
        refused += schedule.refused
    assert kills > 20
    assert created > 20
    assert refused > 5
