"""Entry point of the job: takes the signals, runs the training, and tells of whatever goes wrong.

SageMaker's script mode runs it, with the arguments of `experiments.planning.hyperparameters`.
"""

import os
import sys
from pathlib import Path
from typing import Optional

from processes import ranks
from processes.signals import StopRequest
from reporting.errors import Stopped
from reporting.events import Events
from reporting.failure import another_failed, report


def main() -> int:
    """Return the exit code."""
    output = _folder("SM_OUTPUT_DIR")
    events = Events(_folder("SM_OUTPUT_DATA_DIR"), speaks=ranks.rank() == 0)
    stop = StopRequest(
        end=lambda: _leave(report(Stopped("SIGTERM was received"), events, output)),
        others_failed=lambda: another_failed(output),
    )
    stop.install()
    try:
        # Imported here: it takes seconds, in which a signal may come and an import may fail.
        from training_run import run

        run(sys.argv[1:], os.environ, events, stop)
    except BaseException as error:
        stop.claim_end()
        # One that was stopped earlier leaves the others in the midst of an exchange.
        deserted = stop.is_asked and ranks.count() > 1 and isinstance(error, RuntimeError)
        return report(Stopped("SIGTERM was received") if deserted else error, events, output)
    stop.claim_end()
    return 0


def _folder(variable: str) -> Optional[Path]:
    return Path(os.environ[variable]) if os.environ.get(variable) else None


def _mp_fn(index: int) -> None:
    """Run one process of torch_xla's launcher, which looks for this name."""
    code = main()
    if code:
        sys.exit(code)


def _leave(code: int) -> None:
    """End the process without taking the interpreter down: that takes torch a second, which is billed."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _leave(main())
