"""Requirements of a script that this environment does not meet."""

from __future__ import annotations

from pathlib import Path

from training.scripts.environments import requirement_notes, unmet_requirements


def test_unmet_requirements_are_listed(tmp_path: Path) -> None:
    lines = ["# a comment", "--extra-index-url x", "torch", "pyyaml>=999  # too new", "no-such-package==1", ""]
    (tmp_path / "requirements.txt").write_text("\n".join(lines))
    assert unmet_requirements(tmp_path) == ["pyyaml>=999  # too new", "no-such-package==1"]
    assert unmet_requirements(tmp_path / "nowhere") == []


def test_notes_depend_on_the_service(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("no-such-package==1")
    (tmp_path / "setup.py").touch()
    missing, package = requirement_notes(tmp_path, local=True, python=None)
    assert "packages that are missing: no-such-package==1; script.requirements: install" in missing
    assert "SageMaker installs the script's source as a package" in package
    assert list(requirement_notes(tmp_path, local=False, python=None)) == []
