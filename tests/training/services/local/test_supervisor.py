"""Failure reasons and final metrics, worked out by hand."""

from __future__ import annotations

import signal

import pytest

from training.contract.failures import TRACEBACK, Failure
from training.services.local.slots import gpu_names, used_device
from training.services.supervision.processes import Outcome
from training.services.supervision.supervise import failure_of_outcome, shortened

TORCHRUN = """
Failures:
[1]:
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 4241)
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_07:00:00
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 4242)
""".splitlines()


def outcome(exit_code: int, out_of_memory: bool = False) -> Outcome:
    return Outcome(exit_code=exit_code, ended_by="itself", out_of_memory=out_of_memory)


def failure_reason(outcome: Outcome, failure_text: str, log_tail: list[str]) -> str:
    return failure_of_outcome(outcome, failure_text, log_tail)[1]


def test_the_reason_is_the_failure_file_or_the_last_traceback() -> None:
    head = "AlgorithmError: ExecuteUserScriptError:\n"
    assert failure_reason(outcome(3), "written\n", ["last"]) == head + 'ExitCode 3\nErrorMessage "written"'
    assert failure_reason(outcome(3), "", ["a", "last"]) == head + 'ExitCode 3\nErrorMessage "last"'
    assert failure_reason(outcome(3), "", []) == head + 'ExitCode 3\nErrorMessage ""'
    trace = ["x", "Traceback (most recent call last):", "  File", "ValueError: no"]
    assert failure_reason(outcome(1), "", trace).endswith('ErrorMessage "' + "\n".join(trace[1:]) + '"')


def test_the_reason_names_the_signal_that_killed_the_script() -> None:
    assert 'ExitCode -9\nExtraInfo "Killed by SIGKILL"\n' in failure_reason(outcome(-signal.SIGKILL), "", [])
    assert 'ExtraInfo "OutOfMemory: Killed by SIGKILL"' in failure_reason(outcome(-signal.SIGKILL, True), "", [])
    # The out-of-memory killer sends only SIGKILL, so it killed some other process here.
    assert 'ExtraInfo "Killed by SIGSEGV"' in failure_reason(outcome(-signal.SIGSEGV, True), "", [])
    assert 'ExitCode 137\nExtraInfo "Killed by SIGKILL"' in failure_reason(outcome(137), "", [])
    assert 'ExitCode 1\nExtraInfo "Killed by SIGKILL"' in failure_reason(outcome(1), "", TORCHRUN)
    assert 'ExtraInfo "Killed by signal 63"' in failure_reason(outcome(-63), "", [])


@pytest.mark.parametrize(
    ("ended", "failure_text", "log_tail", "disk", "failure"),
    [
        (outcome(3), "written\n", ["last"], "", Failure("Error", "written")),
        (outcome(1), "", [TRACEBACK, "  File", "MemoryError: no", ""], "", Failure("OutOfMemory", "MemoryError: no")),
        (outcome(-9), "", ["last"], "", Failure("Killed", "Killed by SIGKILL")),
        (outcome(-9, True), "", ["last"], "", Failure("OutOfMemory", "Killed by SIGKILL")),
        (outcome(1), "", ["last"], "DiskFull: no room", Failure("DiskFull", "DiskFull: no room")),
        (outcome(1), "", [], "", Failure("Error", "")),
    ],
)
def test_the_failure_says_why_the_script_ended(
    ended: Outcome, failure_text: str, log_tail: list[str], disk: str, failure: Failure
) -> None:
    assert failure_of_outcome(ended, failure_text, log_tail, disk)[0] == failure


def test_a_long_reason_keeps_its_start_and_its_end() -> None:
    assert shortened("abc", 3) == "abc"
    text = "a" * 50 + "b" * 50
    short = shortened(text, 40)
    assert len(short) == 40
    assert short == "a" * 10 + "\n[...]\n" + "b" * 23


def test_gpus_are_named_by_number_or_by_mig_slice() -> None:
    listing = (
        "GPU 0: NVIDIA H200 (UUID: GPU-11111111-aaaa)\n"
        "GPU 1: NVIDIA H200 (UUID: GPU-22222222-bbbb)\n"
        "  MIG 3g.71gb     Device  0: (UUID: MIG-33333333-cccc)\n"
        "  MIG 3g.71gb     Device  1: (UUID: MIG-44444444-dddd)\n"
        "GPU 10: NVIDIA H200 (UUID: GPU-55555555-eeee)\n"
    )
    assert gpu_names(listing) == ("0", "MIG-33333333-cccc", "MIG-44444444-dddd", "10")
    assert gpu_names("") == gpu_names("No devices were found") == ()
    assert used_device(4, listing, "2.13.0", has_cuda=True) == "Using 4 x NVIDIA H200, CUDA build of PyTorch 2.13.0"
    [line] = listing.splitlines()[:1]
    assert used_device(1, line, "2.13.0", has_cuda=True) == "Using NVIDIA H200, CUDA build of PyTorch 2.13.0"
    without = used_device(1, line, "2.13.0+cpu", has_cuda=False)
    assert without.startswith("This machine has NVIDIA H200, but PyTorch 2.13.0+cpu is built without CUDA")
    assert without.endswith("install the build for GPUs with `make clean setup`")
    assert used_device(0, line, "2.13.0", has_cuda=True).startswith("CPU: ")
