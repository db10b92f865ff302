"""A logged model's requirements: everything that is needed, at the versions installed here."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.logged.pinned_packages import pinned


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages: only the metadata, which is all that is read."""
    package(tmp_path, "Top_Level", "1.0+cpu", "needed>=1", "absent", 'other-system; sys_platform == "none"')
    package(tmp_path, "needed", "1.5", "Top.Level", "with-extra[fast]>2")
    package(tmp_path, "with-extra", "2.1", 'speed; extra == "fast"', 'colour; extra == "pretty"')
    for name in ("speed", "colour", "other-system"):
        package(tmp_path, name, "3.0")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def package(folder: Path, name: str, version: str, *requirements: str) -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {each}" for each in requirements)]
    (info / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", *lines]) + "\n")


@pytest.mark.usefixtures("installed")
def test_everything_required_is_pinned_once() -> None:
    """In a cycle, with an extra, and without what another system or another extra needs."""
    assert pinned(["top-level"]) == ["top-level==1.0", "needed==1.5", "speed==3.0", "with-extra==2.1"]


@pytest.mark.usefixtures("installed")
def test_a_missing_package_is_left_out() -> None:
    assert pinned(["absent", "colour"]) == ["colour==3.0"]
