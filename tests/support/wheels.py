"""Packages that pip installs without a network."""

from __future__ import annotations

import zipfile
from pathlib import Path


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
