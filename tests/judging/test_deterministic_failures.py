"""The rule by which the further repeats of an arm are not started."""

from __future__ import annotations

from judging.deterministic_failures import Death, Moment, deterministic_failure, mask

MISSING = "ModuleNotFoundError: No module named 'evaluate'"


def death(exception: str, moment: Moment) -> Death:
    return Death(exception=exception, moment=moment)


def test_one_error_of_an_import_is_enough() -> None:
    assert deterministic_failure([death(MISSING, "import")]) == death(MISSING, "import")
    assert deterministic_failure([]) is None


def test_other_exceptions_must_occur_twice_before_the_first_step() -> None:
    first = death("OutOfMemoryError: tried to allocate 2.00 GiB at 0x7f00", "start")
    second = death("OutOfMemoryError: tried to allocate 1,024.50 GiB at 0x7fab", "start")
    assert deterministic_failure([first]) is None
    assert deterministic_failure([first, second]) == first
    assert deterministic_failure([first, death("ValueError: no", "start")]) is None
    assert deterministic_failure([death("ValueError: no", "later")] * 5) is None


def test_what_differs_from_job_to_job_is_masked() -> None:
    one = mask("FileNotFoundError: [Errno 2] No such file: '/home/a/jobs/x-1f3a9c2e/data.txt' (commit 3fa94b2cde)")
    other = mask("FileNotFoundError: [Errno 2] No such file: '/home/a/jobs/y-00aa11bb/data.txt' (commit 77aab2cd01)")
    assert one == other
    assert mask("ValueError: unknown label 'added'") == "ValueError: unknown label 'added'"
