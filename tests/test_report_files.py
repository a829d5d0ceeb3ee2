"""Writing report files: completely or not at all, and said early where it cannot be."""

import os
import stat
from pathlib import Path

import pytest

from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.files import atomic
from pytest_kernelqual.files.atomic import write_once
from pytest_kernelqual.model.record import DOCUMENT_SCHEMA
from pytest_kernelqual.report.document import check_writable, write


def test_write_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    """The folder holds the report alone, with the mode that the report had."""
    path = tmp_path / "report.json"
    path.write_text("old")
    path.chmod(0o640)
    write(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_write_gives_a_new_file_the_mode_that_the_umask_allows(tmp_path: Path) -> None:
    """A report is as readable as any file that the user makes; a temporary file's 0600 would not be."""
    old = os.umask(0o022)
    try:
        write(tmp_path / "report.json", b"new")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "report.json").stat().st_mode) == 0o644


def test_write_follows_a_link(tmp_path: Path) -> None:
    """A link stays a link; the file that it leads to is replaced."""
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    write(tmp_path / "link.json", b"new")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_bytes() == b"new"


def test_write_takes_a_name_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    """The temporary file has a shorter name of its own."""
    write(tmp_path / ("n" * 255), b"new")
    assert (tmp_path / ("n" * 255)).read_bytes() == b"new"


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """A full disk costs the new report, never the old one, and leaves no temporary file."""
    path = tmp_path / "report.json"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*((atomic.os, "fsync", full) if broken == "fsync" else (Path, "replace", full)))
    with pytest.raises(DocumentError, match=r"cannot write '.*report\.json': No space left on device; give a path"):
        write(path, b"new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_write_once_keeps_what_is_there(tmp_path: Path) -> None:
    """The first of several writers wins, and the others learn of it."""
    path = tmp_path / "plan.json"
    assert write_once(path, b"first")
    assert not write_once(path, b"second")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_check_leaves_no_trace(tmp_path: Path) -> None:
    """Neither is a missing file created nor an existing one touched."""
    there = tmp_path / "there.json"
    there.write_text(f'{{"schema": "{DOCUMENT_SCHEMA}"}}')
    old, before = there.read_text(), there.stat()
    check_writable(there)
    check_writable(tmp_path / "new.json")
    assert list(tmp_path.iterdir()) == [there]
    assert (there.read_text(), there.stat().st_mtime_ns) == (old, before.st_mtime_ns)


def test_check_takes_a_path_relative_to_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare file name is the usual argument."""
    monkeypatch.chdir(tmp_path)
    check_writable("report.json")
    write("report.json", b"new")
    assert (tmp_path / "report.json").read_bytes() == b"new"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("missing/report.json", "there is no folder '.*missing'; create it or give another path"),
        ("folder", "it is a folder; give a file name in it"),
        ("new/", "it names a folder; give a file name in it"),
        ("file/report.json", "Not a directory"),
        ("pipe", "it is no regular file"),
        ("locked.json", "it is read-only; make it writable or give another path"),
        ("loop.json", "cannot write"),
        ("n" * 256, "File name too long"),
        ("dangling.json", "there is no folder"),
        ("a\0b", "it is no path"),
    ],
)
def test_check_and_write_refuse_what_is_no_place_for_a_report(tmp_path: Path, path: str, message: str) -> None:
    """Both name the path as it was given and say what to do; nothing is created."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "locked.json").write_text("old")
    (tmp_path / "locked.json").chmod(0o444)
    (tmp_path / "loop.json").symlink_to("loop.json")
    (tmp_path / "dangling.json").symlink_to("nowhere/report.json")
    before = sorted(tmp_path.iterdir())
    given = f"{tmp_path}/{path}"
    for attempt in (lambda: check_writable(given), lambda: write(given, b"new")):
        with pytest.raises(DocumentError, match=message) as raised:
            attempt()
        assert repr(given) in str(raised.value)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "locked.json").read_text() == "old"


def test_check_refuses_to_replace_what_is_no_report(tmp_path: Path) -> None:
    """`--kernelqual-json kernels/qual_a.py` is a slip, and the file is the user's work."""
    spec = tmp_path / "qual_a.py"
    spec.write_text("import torch\n")
    with pytest.raises(DocumentError, match=r"qual_a\.py': the file there is no report, and would be lost; give an"):
        check_writable(spec)
    assert spec.read_text() == "import torch\n"
    spec.write_text("")
    check_writable(spec)


def test_check_refuses_an_empty_path() -> None:
    """`--kernelqual-json ""` is a mistake in a script."""
    with pytest.raises(DocumentError, match="it is no path"):
        check_writable("")


def test_check_tries_the_folder_itself() -> None:
    """A folder that takes no files is found out even by a user whom permissions do not stop."""
    with pytest.raises(DocumentError, match=r"cannot write '/proc/report\.json': .*; give a path in a folder"):
        check_writable("/proc/report.json")
