"""Every verb on a state folder and a tracking database that cannot be written to: a real read-only mount."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

CAN_MOUNT = os.getuid() == 0 and (
    subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0
)
READS = ("jobs list", "jobs log", "jobs stop", "jobs prune", "endpoints", "undeploy")
"""Verbs that have nothing to write here: the jobs are too young to be pruned."""

DRIVER = """
import json, os, subprocess, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.support.fork_server.interpreter import SHARED_VARIABLE, forking_interpreter
from tests.support.services.small_place import by_script, make_place, on_data
os.environ.pop(SHARED_VARIABLE, None)  # its servers do not see the mount
sys.executable = forking_interpreter()
folder = Path({folder!r})
place = make_place(folder)
work = str(place.work)
subprocess.run(["mount", "--bind", work, work], check=True)
subprocess.run(["mount", "-o", "remount,ro,bind", work, work], check=True)
job = place.jobs[0]
groups = sorted({{each.rsplit("-", 2)[0] for each in place.jobs}})
commands = [["jobs", "list"], ["jobs", "log", job], ["jobs", "stop", job], ["jobs", "prune", "--yes"], ["endpoints"]]
commands += [["report", "--group", groups[0]], ["report", "--experiment", "script", "--overview", "true"]]
commands += [["attach", "--group", group] for group in groups]
commands += [by_script(place, 1), by_script(place, 9), on_data(place, 1), ["compare", *by_script(place, 4)[1:]]]
commands += [["probe"], ["sweep", "--sweep.worse_by", "0.1"], ["deploy", "--run", job], ["ui"]]
commands += [["register", "--run", job, "--name", "m"]]
commands += [["predict", "--file", "rows.tsv", "--run", job], ["predict", "--text", "x"], ["undeploy", "--all", "true"]]
answers = []
for words in commands:
    output = folder / "output.txt"
    output.unlink(missing_ok=True)
    answers.append((words, place.command(words, output, 200), output.read_text()))
print("answers:" + json.dumps(answers))
"""


@pytest.mark.slow
@pytest.mark.skipif(not CAN_MOUNT, reason="only root can mount a folder that cannot be written to")
def test_every_verb_explains_a_place_that_cannot_be_written_to(tmp_path: Path) -> None:
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER.format(root=str(ROOT), folder=str(tmp_path)))
    ran = subprocess.run(
        ["unshare", "-m", sys.executable, str(driver)], capture_output=True, text=True, timeout=560, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    answers = json.loads(ran.stdout.rpartition("answers:")[2])
    for words, code, text in answers:
        verb = " ".join(words[:2])
        assert "Traceback (most recent call last)" not in text, text
        assert code is not None, f"{verb} did not end"
        if verb.startswith(READS):
            assert code == 0, text
        else:
            assert code in (1, 2), text
            [sentence] = [line for line in text.splitlines() if line.startswith("error: ")]
            # Some verbs find out before they write that this job has saved no model, or that nothing is deployed.
            has_no_model = verb.startswith(("register", "deploy", "predict --file")) and " has no " in sentence
            ends_before = has_no_model or verb.startswith(("predict --text", "attach"))
            assert ends_before or "read-only file system" in sentence, sentence
            assert not verb.startswith("report") or "billable seconds" in text
