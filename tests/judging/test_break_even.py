"""Break-even points and Fieller's intervals, worked out by hand."""

from __future__ import annotations

import pytest

from judging.break_even import Kind, Pace, break_even


def jobs(setup: float, pace: float, errors: tuple[float, float, float], state: str = "off") -> list[Pace]:
    """Return three jobs with setups 1 s apart, and with these errors of the seconds per sample."""
    return [Pace(setup + at, pace + error, state) for at, error in zip((-1, 0, 1), errors, strict=True)]


SLOW_STARTS_FAST = (0.0001, 0.0, -0.0001)
"""A job that starts slower trains faster: the covariance of setup and pace is -0.0001, the variance of pace 1e-8."""
UNRELATED = (0.0001, -0.0002, 0.0001)
"""The covariance is 0, the variance of pace 3e-8."""


def test_break_even_by_hand() -> None:
    """30 s dearer, and 0.010 - 0.005 s earned per sample: 6,000 samples, after 40 + 6,000 * 0.005 = 70 s.

    Of three jobs a side, the means have variances 1/3 and 1e-8/3, and the covariance -1e-4/3; t(0.975, 4)^2 = 7.708649.
    The interval's ends solve (0.005^2 - 7.708649 * 2e-8/3) N^2 - 2 (0.15 - 7.708649 * 2e-4/3) N + 900 - 7.708649 * 2/3
    = 2.494861e-5 N^2 - 2 * 0.1494861 N + 894.8609 = 0.
    """
    arm, baseline = jobs(40, 0.005, SLOW_STARTS_FAST), jobs(10, 0.010, SLOW_STARTS_FAST)
    result = break_even(arm, baseline, "off", "off")
    assert (result.kind, result.samples, result.minutes) == ("at", pytest.approx(6000), pytest.approx(70 / 60))
    assert (result.low, result.high) == (pytest.approx(5810.03, abs=0.5), pytest.approx(6173.49, abs=0.5))
    reverse = break_even(baseline, arm, "off", "off")
    assert (reverse.kind, reverse.samples) == ("until", pytest.approx(6000))
    assert (reverse.low, reverse.high) == (pytest.approx(result.low), pytest.approx(result.high))


def test_an_interval_without_an_end_by_hand() -> None:
    """A gain of 0.0001 s per sample is within the noise of 3e-8: the interval has no upper end.

    (1e-8 - 7.708649 * 2e-8) N^2 - 2 * 0.003 N + 894.8609 = 0 has the positive root 60,676.
    """
    slower_start = break_even(jobs(40, 0.0099, UNRELATED), jobs(10, 0.0100, UNRELATED), "off", "off")
    assert (slower_start.kind, slower_start.samples, slower_start.high) == ("at least", None, None)
    assert slower_start.low == pytest.approx(60_676, abs=1)
    quicker_start = break_even(jobs(10, 0.0100, UNRELATED), jobs(40, 0.0099, UNRELATED), "off", "off")
    assert (quicker_start.kind, quicker_start.low) == ("until at least", pytest.approx(60_676, abs=1))


@pytest.mark.parametrize(
    ("setup", "pace", "kind"),
    [
        (5.0, 0.005, "already ahead"),
        (10.0, 0.005, "already ahead"),
        (10.1, 0.005, "at"),
        (40.0, 0.015, "never"),
        (10.0, 0.015, "never"),
        (5.0, 0.015, "until"),
        (10.0, 0.010, "not determined"),
        (40.0, 0.010, "at least"),
    ],
)
def test_each_kind_of_break_even(setup: float, pace: float, kind: Kind) -> None:
    result = break_even(jobs(setup, pace, UNRELATED), jobs(10.0, 0.010, UNRELATED), "off", "off")
    assert result.kind == kind
    if setup == 10.1:
        # 0.1 s is within the noise of the setups: the arm may be ahead from the start.
        assert (result.samples, result.low) == (pytest.approx(20), 0)


def test_a_single_cold_job_spreads_like_the_warm_ones() -> None:
    """The setup of 80 s is twice that of the warm jobs, and so is its spread: 2 s."""
    arm = [*jobs(40, 0.005, UNRELATED, "warm"), Pace(80.0, 0.005, "cold")]
    warm, cold = (break_even(arm, jobs(10, 0.010, UNRELATED), state, "off") for state in ("warm", "cold"))
    assert (warm.samples, cold.samples) == (pytest.approx(6000), pytest.approx(14_000))
    assert (cold.low or 0) < 14_000 - 2 * 2 / 0.005 < 14_000 + 2 * 2 / 0.005 < (cold.high or 0)


def test_equal_times_do_not_prove_that_all_are_equal() -> None:
    result = break_even([Pace(40.0, 0.005)] * 2, [Pace(10.0, 0.010)] * 2, "off", "off")
    assert (result.low or 0) < 6000 < (result.high or 0)


def test_too_few_jobs_determine_nothing() -> None:
    both = jobs(10, 0.010, UNRELATED)
    for arm, baseline in (([Pace(40.0, 0.005)], both), (both, [Pace(40.0, 0.005)]), ([], both)):
        assert break_even(arm, baseline, "off", "off").kind == "not determined"
    assert break_even(both, both, "cold", "off").kind == "not determined"


def test_setups_of_exactly_nothing_are_equal() -> None:
    """0.010 - 0.008 s are earned per sample from the start.

    The setups spread by at least 0.001 s, the paces by at least 0.1 %: the means of two jobs have variances 5e-7 and
    (1e-5)^2 / 2 or (8e-6)^2 / 2, and t(0.975, 2)^2 = 18.512821. (0.002^2 - 18.512821 * 8.2e-11) N^2 = 18.512821 * 1e-6
    has the root 2.152.
    """
    arm, baseline = [Pace(0.0, 0.008)] * 2, [Pace(0.0, 0.010)] * 2
    result = break_even(arm, baseline, "off", "off")
    assert (result.kind, result.samples) == ("already ahead", None)
    assert result.high == pytest.approx(2.152, abs=1e-3)
    assert break_even(baseline, arm, "off", "off").kind == "never"
