"""Units and directions of a script's metrics reach the verdict, also in a report that is made later."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import CommandLine, text

SCRIPT = """\
import argparse, time
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int)
parser.add_argument("--seed", type=int)
args = parser.parse_args()
print("samples=64")
time.sleep({4: 12.0, 8: 0.2}[args.batch_size])
print("eval_f1=%.4f" % ({4: 0.8, 8: 0.2}[args.batch_size] + 0.001 * (args.seed % 3)))
"""
EXPERIMENT = """\
script:
  source: code
  entry_point: fast.py
  hyperparameters: {batch-size: $batch_size, seed: $seed}
  metrics: {samples: 'samples=(\\d+)', eval_f1: METRIC}
machine: {cores: 1}
compare:
  arms: [{batch_size: 4}, {batch_size: 8}]
"""


def write(folder: Path, metric: str) -> Path:
    """Return the experiment file of a script that logs an F1 between 0 and 1."""
    (folder / "code").mkdir()
    (folder / "code" / "fast.py").write_text(SCRIPT)
    (folder / "fast.yaml").write_text(EXPERIMENT.replace("METRIC", metric))
    return folder / "fast.yaml"


@pytest.mark.slow
def test_a_lost_score_is_not_cheaper(command_line: CommandLine, tmp_path: Path) -> None:
    experiment = write(tmp_path, "{pattern: 'eval_f1=(.*)', unit: fraction, better: higher}")
    # On a disturbed machine, three repeats may not show that the cost differs.
    done = command_line("compare", {"experiment": experiment, "compare.stop": "never", "compare.repeats": "4"})
    assert done.returncode == 0, done.stdout + done.stderr
    [group] = command_line.runs("group")
    report = text(command_line("report", {"group": group.data.tags["platform.group"]}))
    assert "but the F1 is worse" in report
    assert "“batch 8” is cheaper" not in report
