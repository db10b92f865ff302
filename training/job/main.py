"""A training job, from its start to its exit code. `train.py` runs it.

1. `main` opens the event log and starts to listen for SIGTERM (`processes/ranks.py`). After that, it imports torch
   and transformers, which takes seconds.
2. `training_run.run` reads the arguments and channels, trains, evaluates and saves. It emits events throughout.
3. If anything fails, `main` reports it (`processes/reporting.py`) in three places: a `failure` event, the file
   `failure`, which SageMaker shows as the failure reason, and the exit code. A stopped job has exit code 143.
"""

import os
import sys
from pathlib import Path

import training.job.compilation.lean_imports  # noqa: F401
from training.job.processes import ranks
from training.job.processes.ranks import StopRequest
from training.job.processes.reporting import Events, Stopped, another_process_failed, report


def main() -> int:
    output = _folder("SM_OUTPUT_DIR")
    events = Events(_folder("SM_OUTPUT_DATA_DIR"), enabled=ranks.rank() == 0)
    stop = StopRequest(
        end_process=lambda: _leave(report(Stopped("SIGTERM was received"), events, output)),
        another_failed=lambda: another_process_failed(output),
    )
    stop.install()
    try:
        # Imported here because the import takes seconds: SIGTERM and import errors must already be handled.
        from training.job.training_run import run

        run(sys.argv[1:], os.environ, events, stop)
    except BaseException as error:
        stop.claim_end()
        # A process that stops early leaves the others waiting in an exchange, where they fail with a RuntimeError.
        abandoned = stop.is_requested and ranks.count() > 1 and isinstance(error, RuntimeError)
        return report(Stopped("SIGTERM was received") if abandoned else error, events, output)
    stop.claim_end()
    return 0


def _folder(variable: str) -> Path | None:
    return Path(os.environ[variable]) if os.environ.get(variable) else None


def _leave(code: int) -> None:
    """Exit without shutting down the interpreter.

    With torch, the shutdown takes a second, which is billed. It can also abort the process (SIGABRT) if one of Gloo's
    threads frees a tensor at that moment (pytorch/pytorch, pull request 179291).
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def exit_with_code() -> None:
    """Run the training, and exit with its exit code."""
    _leave(main())
