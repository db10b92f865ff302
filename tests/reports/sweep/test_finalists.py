"""Test the choice among the finalists of a sweep on hand-made tables."""

from __future__ import annotations

from typing import Any

from reports.model.numbers import NONE
from reports.sweep.messages import headline, sentences
from reports.sweep.tables import trial_table
from tests.support.reports.sweep_tables import make_sweep, row, trial


def second(compiler: str, size: float, billed: float, multiplier: float = 1.0, **more: Any) -> dict[str, Any]:
    return row("finalist", compiler, size, billed, multiplier, **more)


def test_both_trainings_of_the_finalists_choose_the_winner() -> None:
    trials = [trial("none", 8, 100.0), trial("none", 16, 90.0), trial("none", 32, 95.0), trial("none", 64, 200.0)]
    sweep = make_sweep(*trials, second("none", 16, 110.0), second("none", 32, 96.0))
    # Geometric means of 90 and 110, 95 and 96: 99.5 and 95.5. The trial of batch 8 was not repeated.
    assert sweep.best is not None
    assert sweep.best.setting.batch_size == 32
    assert [each.setting.batch_size for each in sweep.trials] == [32, 16, 8, 64]
    assert headline(sweep).startswith("none at batch 32 is the best of 4 trials: 95.5 billable seconds")
    assert sentences(sweep)[0] == (
        "The 2 best settings trained a second time with another seed; both trainings together chose the winner."
    )
    [_, second_line] = sweep.cost_by_role()[:2]
    assert (second_line.what, second_line.jobs, second_line.seconds) == ("finalist", 2, 206.0)
    table = trial_table(sweep, 10)
    column = [heading.label for heading in table.headings].index("second training")
    assert [r.cells[column].text for r in table.rows] == ["96.0", "110", NONE, NONE]


def test_a_finalist_whose_second_training_misses_the_target_does_not_win() -> None:
    trials = [trial("none", 8, 100.0), trial("none", 16, 90.0)]
    missed = second("none", 16, 80.0, target_reached=0.0)
    sweep = make_sweep(*trials, missed, second("none", 8, 101.0))
    assert sweep.best is not None
    assert sweep.best.setting.batch_size == 8
    stopped = make_sweep(
        *trials, second("none", 16, 80.0, status="KILLED", failure_class="Stopped", target_reached=0.0)
    )
    assert stopped.best is not None
    assert stopped.best.setting.batch_size == 16  # that a person stopped a job says nothing about the setting
    running = make_sweep(*trials, second("none", 16, 80.0, status="RUNNING"))
    assert running.best is not None
    assert running.best.setting.batch_size == 16  # by the trials alone, until a second training has ended


def test_the_finalists_of_one_compiler_do_not_hide_a_cheaper_other_one() -> None:
    trials = [trial("none", 8, 100.0), trial("none", 16, 105.0), trial("inductor", 8, 60.0)]
    sweep = make_sweep(*trials, second("none", 8, 100.0), second("none", 16, 99.0))
    assert sweep.best is not None
    assert sweep.best.setting.compiler == "inductor"
