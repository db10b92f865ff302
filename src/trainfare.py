"""Entry point of the installed command `trainfare`.

This folder is all that the editable install puts on the import path. The packages of the project (`models`, `reports`
and so on) stay invisible to other processes of the environment: a job imports its own modules of these names, as it
does on AWS.
"""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def main() -> None:
    """Run the command line of the repository that holds this file."""
    if not (REPOSITORY / "experiments" / "__main__.py").is_file():
        sys.exit("error: trainfare runs from its repository: run `make setup` there.")
    sys.path.insert(0, str(REPOSITORY))
    from experiments.__main__ import run

    run()


if __name__ == "__main__":
    main()
