"""Entry point of the job: takes the signals, runs the training, and tells of whatever goes wrong.

Run by SageMaker's script mode, or by hand with the `SM_*` variables set: `python train.py --model ... --epochs 1`.
"""

import os
import sys
from pathlib import Path
from typing import Optional

import lean_imports  # noqa: F401
import processes
from events import Events
from failure import report
from stopping import StopRequest


def main() -> int:
    """Return the exit code."""
    stop = StopRequest()
    stop.install()
    events = Events(_folder("SM_OUTPUT_DATA_DIR"), speaks=processes.rank() == 0)
    try:
        # Imported here: it takes seconds, in which a signal may come and an import may fail.
        from training_run import run

        run(sys.argv[1:], os.environ, events, stop)
    except BaseException as error:
        return report(error, events, _folder("SM_OUTPUT_DIR"))
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
