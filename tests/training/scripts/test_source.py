"""Sources and channels of a script: copies of folders, checkouts from git, and errors."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from training.contract.errors import InputError
from training.scripts.channels import ScriptChannel, find_channels
from training.scripts.source import find_script, with_entry


def git(folder: Path, *arguments: str) -> str:
    names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    process = subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True, env=os.environ | names
    )
    return process.stdout.strip()


def commit(folder: Path, text: str) -> str:
    (folder / "ex" / "train.py").write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", text)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a branch `main`, a tag `v1` on its first commit, and a second commit."""
    folder = tmp_path / "repository"
    (folder / "ex").mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    (folder / "setup.py").write_text("")
    commit(folder, "first")
    git(folder, "tag", "--annotate", "--message", "one", "v1")
    commit(folder, "second")
    return folder


def text_of(url: str, home: Path, revision: str | None) -> str:
    script = find_script(url, "train.py", home, revision=revision, directory="ex")
    assert not list(script.folder.parent.glob(".git"))
    return (script.folder / "train.py").read_text()


def test_branches_tags_and_commits_are_checked_out(repository: Path, tmp_path: Path) -> None:
    url, home = repository.as_uri(), tmp_path / "home"
    assert text_of(url, home, None) == text_of(url, home, "main") == "second"
    assert text_of(url, home, "v1") == "first"
    assert text_of(url, home, git(repository, "rev-parse", "main")) == "second"
    # No branch or tag points to this commit any more.
    middle = commit(repository, "middle")
    commit(repository, "last")
    assert text_of(url, home, middle) == "middle"


def test_a_moved_branch_is_a_new_script_and_a_known_commit_needs_no_server(repository: Path, tmp_path: Path) -> None:
    url, home = repository.as_uri(), tmp_path / "home"
    before = find_script(url, "train.py", home, revision="main", directory="ex")
    head = commit(repository, "third")
    after = find_script(url, "train.py", home, revision="main", directory="ex")
    assert before.identity != after.identity
    assert head in after.identity
    assert head[:12] in after.description
    repository.rename(tmp_path / "gone")
    assert text_of(url, home, head) == "third"


@pytest.mark.parametrize(
    ("revision", "directory", "message"),
    [
        ("v2", "ex", "script.revision 'v2' is not a branch or tag of file:"),
        ("main", "..", "script.directory '..' is not a folder within"),
        ("main", None, "'train.py' is not a file in"),
        ("0" * 40, "ex", "cannot be fetched"),
        ("--upload-pack=touch x", "ex", "is not a branch or tag"),
    ],
)
def test_an_invalid_git_source_is_an_error(
    repository: Path, tmp_path: Path, revision: str, directory: str | None, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        find_script(repository.as_uri(), "train.py", tmp_path / "home", revision=revision, directory=directory)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "home").glob(".unfinished-*"))


def test_a_missing_server_a_password_a_missing_folder_and_its_revision_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"git://127\.0\.0\.1:9/x\.git cannot be fetched: unable to connect"):
        find_script("git://127.0.0.1:9/x.git", "train.py", tmp_path)
    with pytest.raises(InputError) as caught:
        find_script("https://me:s3cret@example.org/x.git", "train.py", tmp_path)
    assert "password" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    (tmp_path / "code").mkdir()
    with pytest.raises(InputError, match=r"is neither a folder nor a git URL\. Did you mean 'code'"):
        find_script(str(tmp_path / "coed"), "train.py", tmp_path / "home")
    with pytest.raises(InputError, match=r"script\.revision 'v1' applies only to git URLs"):
        find_script(str(tmp_path / "code"), "train.py", tmp_path / "home", revision="v1")


def test_a_folder_is_copied_without_ignored_files(tmp_path: Path) -> None:
    folder = tmp_path / "cöde"
    for name in ("train.py", "package/part.py", ".env", ".git/config", "__pycache__/x.pyc", "mlflow.db"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    script = find_script(str(folder), "train.py", tmp_path / "home")
    copied = {str(path.relative_to(script.folder)) for path in script.folder.rglob("*") if path.is_file()}
    assert copied == {"train.py", "package/part.py"}
    (folder / ".env").write_text("other")
    assert find_script(str(folder), "train.py", tmp_path / "home") == script
    (folder / "package" / "part.py").write_text("other")
    assert find_script(str(folder), "train.py", tmp_path / "home").identity != script.identity


@pytest.mark.parametrize(
    ("entry_point", "files", "message"),
    [
        ("trian.py", ["train.py"], "script.entry_point 'trian.py' is not a file in {folder}. Did you mean 'train.py'?"),
        ("a/../../train.py", ["train.py"], "must be a file within the source"),
        ("run", ["run"], "must be a Python file (.py), a shell script (.sh) or a file that starts with #!"),
        ("-m pkg.train", ["train.py"], "'-m pkg.train' needs pkg/train.py, which is not in"),
        ("-m a-b", ["a-b.py"], "'-m a-b' is not a module; an example is '-m package.train'"),
    ],
)
def test_an_invalid_folder_is_an_error(tmp_path: Path, entry_point: str, files: list[str], message: str) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    for name in files:
        (folder / name).touch()
    with pytest.raises(InputError) as caught:
        find_script(str(folder), entry_point, tmp_path / "home")
    assert message.replace("{folder}", str(folder)) in str(caught.value)


def test_programs_of_every_kind_are_accepted(tmp_path: Path) -> None:
    for name in ("train.py", "bin/run.sh", "bin/run", "pkg/__main__.py", "pkg/train.py", "setup.py"):
        (tmp_path / "code" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "code" / name).write_text("#!/bin/sh")
    for entry_point in ("train.py", "bin/run.sh", "bin/run", "-m pkg", "-m pkg.train"):
        assert find_script(str(tmp_path / "code"), entry_point, tmp_path / "home").folder.is_dir()


def test_our_entry_point_is_added_to_a_copy(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").touch()
    source = find_script(str(tmp_path / "code"), "train.py", tmp_path / "home")
    added = with_entry(source, tmp_path / "home", is_metered=False)
    assert sorted(path.name for path in added.folder.iterdir()) == ["train.py", "trainfare_entry.py"]
    metered = with_entry(source, tmp_path / "home", is_metered=True)
    assert (metered.folder / "trainfare_metering" / "sitecustomize.py").is_file()
    assert metered.identity != added.identity
    assert [path.name for path in source.folder.iterdir()] == ["train.py"]
    assert added.identity != source.identity
    with pytest.raises(InputError, match=r"contains trainfare_entry\.py, a name that the job needs"):
        with_entry(added, tmp_path / "home", is_metered=True)


def test_hostile_channels_and_repositories_are_refused_and_inner_links_followed(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    (repository / "ex").mkdir(parents=True)
    (repository / "ex" / "again.py").symlink_to("train.py")
    git(repository, "init", "--quiet", "--initial-branch", "main")
    commit(repository, "first")
    script = find_script(str(repository), "train.py", tmp_path / "home", directory="ex")
    assert (script.folder / "again.py").read_text() == "first"
    (repository / "ex" / "zero").symlink_to("/dev/zero")
    commit(repository, "second")
    with pytest.raises(InputError, match=r"/ex/zero is a link to /dev/zero, which is outside"):
        find_script(repository.as_uri(), "train.py", tmp_path / "home", directory="ex")
    for uri, message in ((str(repository / "ex"), "is a link to /dev/zero"), ("/dev/zero", "is a device, a pipe or")):
        with pytest.raises(InputError, match=rf"^script\.channels\.rows.* {message}"):
            find_channels({"rows": ScriptChannel(uri=uri)}, tmp_path / "home")
