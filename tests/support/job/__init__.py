"""Jobs for tests. Importing this package adds the job's folder to `sys.path`, because its modules are top-level."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "training" / "job"))
