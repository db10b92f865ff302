"""Environments with the requirements of scripts: made by real pip, kept, shared, and removed after an error."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from state.locks import lock_for_use
from training.contract.errors import InputError
from training.scripts.source import ScriptSource, requirement_notes, script_environment, unmet_requirements


def source(tmp_path: Path, requirements: str, identity: str = "i") -> ScriptSource:
    folder = tmp_path / "source"
    folder.mkdir(exist_ok=True)
    (folder / "requirements.txt").write_text(requirements)
    return ScriptSource(folder=folder, identity=identity, description="a script")


def wheel(folder: Path, name: str, version: str) -> str:
    """Write a wheel whose module and command print their version, and return its file name."""
    file = f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = '{version}'\ndef main(): print('{name} {version}')",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name}-command = {name}:main\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / file, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)
    return file


def output(*command: object) -> str:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
def test_an_environment_has_the_requirements_and_our_packages(tmp_path: Path) -> None:
    script, echoed = source(tmp_path, "# packages\n./tiny_one-1.5-py3-none-any.whl\npyyaml\n"), list[str]()
    wheel(script.folder, "tiny_one", "1.5")
    made = script_environment(script, tmp_path / "home", echoed.append)
    assert made is not None
    assert echoed == ["Installing the requirements of the script: ./tiny_one-1.5-py3-none-any.whl, pyyaml"]
    assert made.versions.keys() == {"tiny_one", "PyYAML"}
    assert made.versions["tiny_one"] == "1.5"
    assert output(made.python, "-c", "import tiny_one, torch, sys; print(tiny_one.VERSION, sys.prefix)") == (
        f"1.5 {made.folder}"
    )
    assert output(made.folder / "bin" / "tiny_one-command") == "tiny_one 1.5"
    assert sorted(path.name for path in script.folder.iterdir()) == [
        "requirements.txt",
        "tiny_one-1.5-py3-none-any.whl",
    ]
    # A job that uses it shares its lock, also within this process.
    assert lock_for_use(tmp_path / "home", [made.folder])
    # Equal requirements share the environment; another source or other requirements have another one.
    assert script_environment(script, tmp_path / "home", echoed.append) == made
    assert len(echoed) == 1
    (script.folder / "requirements.txt").write_text("pyyaml\n")
    plain = script_environment(script, tmp_path / "home")
    assert plain is not None
    assert plain.key != made.key
    assert plain.versions.keys() == {"PyYAML"}
    other = script_environment(source(tmp_path, "pyyaml\n", identity="j"), tmp_path / "home")
    assert other == plain
    assert sorted(path.name for path in made.folder.parent.iterdir() if not path.name.endswith(".lock")) == sorted(
        [made.key, plain.key]
    )


@pytest.mark.slow
def test_the_error_of_pip_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    assert script_environment(source(tmp_path, "# nothing\n"), tmp_path / "home") is None
    script = source(tmp_path, "--no-index\nno-such-package==1\n")
    with pytest.raises(InputError) as caught:
        script_environment(script, tmp_path / "home")
    assert str(caught.value) == (
        "script.requirements: pip cannot install requirements.txt of the script: Could not find a version that "
        "satisfies the requirement no-such-package==1 (from versions: none)"
    )
    assert [path.name for path in (tmp_path / "home" / "environments").iterdir() if path.suffix != ".lock"] == []


def test_unmet_requirements_are_listed_in_notes_that_depend_on_the_service(tmp_path: Path) -> None:
    lines = ["# a comment", "--extra-index-url x", "torch", "pyyaml>=999  # too new", "no-such-package==1", ""]
    (tmp_path / "requirements.txt").write_text("\n".join(lines))
    assert unmet_requirements(tmp_path) == ["pyyaml>=999  # too new", "no-such-package==1"]
    assert unmet_requirements(tmp_path / "nowhere") == []
    (tmp_path / "requirements.txt").write_text("no-such-package==1")
    (tmp_path / "setup.py").touch()
    missing, package = requirement_notes(tmp_path, local=True, python=None)
    assert "packages that are missing: no-such-package==1; script.requirements: install" in missing
    assert "SageMaker installs the script's source as a package" in package
    assert list(requirement_notes(tmp_path, local=False, python=None)) == []
