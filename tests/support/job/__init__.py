"""Jobs for tests. Importing it puts the job's folder on the path, because the job's files import each other flatly."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "training" / "job"))
