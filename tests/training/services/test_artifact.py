"""Untrusted artifacts: handmade archives, each with one defect."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from training.contract.errors import ArtifactError
from training.services.artifact import unpack


def archive(*members: tuple[str, bytes | str], kind: bytes = tarfile.REGTYPE) -> io.BytesIO:
    """Return an archive of (name, content) members. The content is a file's bytes, or a link's target as text."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, member_content in members:
            entry = tarfile.TarInfo(name)
            if isinstance(member_content, bytes):
                entry.size = len(member_content)
                tar.addfile(entry, io.BytesIO(member_content))
            else:
                entry.type, entry.linkname = kind, member_content
                tar.addfile(entry)
    content.seek(0)
    return content


def test_files_are_written_unchanged(tmp_path: Path) -> None:
    content = archive(("./config.json", b"{}"), ("deep/er/weights.bin", b"\0" * 3_000_000), ("empty", b""))
    assert unpack(content, tmp_path / "target", archive_name="it") == 3_000_002
    files = {str(path.relative_to(tmp_path / "target")): path.stat().st_size for path in tmp_path.rglob("*.*")}
    assert files == {"config.json": 2, "deep/er/weights.bin": 3_000_000}
    assert (tmp_path / "target" / "empty").read_bytes() == b""


def test_only_the_selected_files_are_written(tmp_path: Path) -> None:
    content = archive(("checkpoint-5/optimizer.pt", b"x"), ("config.json", b"{}"))
    assert unpack(content, tmp_path, archive_name="it", is_selected=lambda path: len(path.parts) == 1) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_a_path_outside_the_folder_is_rejected(tmp_path: Path) -> None:
    for name in ("../evil", "/etc/evil", "a/../../evil"):
        with pytest.raises(ArtifactError, match=r"the artifact contains '.*evil', which is outside its folder"):
            unpack(archive((name, b"evil")), tmp_path / "inside", archive_name="the artifact")
    assert not list(tmp_path.rglob("evil"))
    assert not Path("/etc/evil").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_rejected(tmp_path: Path, kind: bytes) -> None:
    content = archive(("model.safetensors", "/etc/passwd"), ("model.safetensors", b"through the link"), kind=kind)
    with pytest.raises(ArtifactError, match=r"'model\.safetensors', which is neither a file nor a folder"):
        unpack(content, tmp_path / "folder", archive_name="it")
    assert not (tmp_path / "folder").exists()


def test_a_truncated_archive_and_another_file_are_rejected(tmp_path: Path) -> None:
    content = archive(("config.json", b"{}" * 500), ("weights", bytes(range(256)) * 40)).getvalue()
    for part in (b"", content[:1], content[:300], content[: len(content) // 2], b"<html>" * 1000):
        with pytest.raises(ArtifactError, match="it is not a complete tar archive: "):
            unpack(io.BytesIO(part), tmp_path / "target", archive_name="it")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match=r"it cannot be unpacked: .*Not a directory.*"):
        unpack(archive(("config.json", b"{}")), tmp_path / "file" / "folder", archive_name="it")
