"""What a store cannot use is one line, and stays as it is."""

import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from committed_samples import (
    H200,
    KERNEL,
    changes,
    file,
    refused,
    row,
    stored,
    updated,
)
from msgspec import structs

from pytest_kernelqual.committed.schema import CommittedFile, canonical, encode
from pytest_kernelqual.committed.store import LOCK_FILE, Contents, Store

HERE = Path(__file__).parent


def put(store: Store, data: bytes) -> Path:
    """Write the file of the sample kernel and device by hand."""
    path = store.path_for(KERNEL, H200)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_no_store_and_no_file_are_no_refusal(tmp_path: Path) -> None:
    """A kernel that was never tuned has no file; nothing is made by reading."""
    store = Store(tmp_path / "committed_configs")
    assert store.read(KERNEL, H200) is None
    assert store.read_all() == Contents()
    assert not store.root.exists()


@pytest.mark.parametrize("data", [b"", b"{", b"<<<<<<< HEAD\n", encode(file(row({"a": 1}), kernel="other"))])
def test_a_refused_file_is_never_overwritten(tmp_path: Path, data: bytes) -> None:
    """What somebody wrote by hand stays until they have looked at it."""
    store = Store(tmp_path)
    path = put(store, data)
    reading, updating = (
        refused(store.read(KERNEL, H200)),
        refused(store.update(KERNEL, H200, changes(row({"cols": 1})))),
    )
    assert reading == updating
    assert path.read_bytes() == data


def test_another_device_is_refused(tmp_path: Path) -> None:
    """A file that was copied is told by what differs."""
    store = Store(tmp_path)
    put(store, encode(structs.replace(file(row({"a": 1})), device=structs.replace(H200, name="NVIDIA H200 NVL"))))
    found = refused(store.read(KERNEL, H200))
    assert found.code == "other_device"
    assert found.text == (
        "device name 'NVIDIA H200 NVL' is not 'NVIDIA H200'; was the file copied? Remove it and update here"
    )


@pytest.mark.parametrize("change", [{"vendor": "amd"}, {"architecture": "sm_100"}, {"compute_units": 114}])
def test_devices_of_one_name_have_a_file_each(tmp_path: Path, change: dict[str, object]) -> None:
    """The second one gets a name that tells all of it, which it keeps when the first one's file is gone."""
    store, other = Store(tmp_path), structs.replace(H200, **change)
    updated(store.update(KERNEL, H200, changes(row({"a": 1}))))
    assert store.read(KERNEL, other) is None
    assert len(updated(store.update(KERNEL, other, changes(row({"a": 2})))).added) == 1
    path, second = store.path_for(KERNEL, H200), store.path_for(KERNEL, other)
    assert path != second
    assert store.read_all().refusals == []
    assert {where: found.device for where, found in store.read_all().files.items()} == {path: H200, second: other}
    updated(store.update(KERNEL, H200, changes(drop=({"a": 1},))))
    assert not path.exists()
    assert len(updated(store.update(KERNEL, other, changes(row({"a": 2})))).kept) == 1
    assert list(store.read_all().files) == [second]
    # Who moves it to the plain name has the same device twice, of which one is read.
    path.write_bytes(second.read_bytes())
    (told,) = store.read_all().refusals
    assert (Path(told.path), told.code) == (path, "other_device")
    second.unlink()
    assert list(store.read_all().files) == [path]


def test_another_kernel_is_refused(tmp_path: Path) -> None:
    """A renamed kernel does not take the configs of its old name."""
    store = Store(tmp_path)
    put(store, encode(file(row({"a": 1}), kernel="layer_norm_fwd")))
    found = refused(store.read(KERNEL, H200))
    assert found.code == "other_kernel"
    assert "layer_norm_fwd" in found.text


def fifo(path: Path) -> None:
    """Put a pipe that nobody writes."""
    os.mkfifo(path)


def loop(path: Path) -> None:
    """Put a link to itself."""
    path.symlink_to(path.name)


def dangling(path: Path) -> None:
    """Put a link to nothing."""
    path.symlink_to("nothing")


def endless(path: Path) -> None:
    """Put a file that never ends."""
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [fifo, loop, dangling, endless, Path.mkdir])
def test_what_is_no_file_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A pipe does not block, a link to itself or to nothing is told, and an update leaves it alone."""
    store = Store(tmp_path)
    path = store.path_for(KERNEL, H200)
    path.parent.mkdir()
    make(path)
    mode = path.lstat().st_mode
    assert refused(store.read(KERNEL, H200)).code == "unreadable"
    assert refused(store.update(KERNEL, H200, changes(row({"a": 1})))).code == "unreadable"
    assert path.lstat().st_mode == mode
    assert len(store.read_all().refusals) == 1


@pytest.mark.parametrize("where", ["root", "folder"])
def test_a_file_in_place_of_a_folder_is_refused(tmp_path: Path, where: str) -> None:
    """Neither reading nor updating raises."""
    store = Store(tmp_path / "committed_configs")
    path = store.path_for(KERNEL, H200)
    (store.root if where == "root" else path.parent).parent.mkdir(exist_ok=True)
    (store.root if where == "root" else path.parent).write_text("x")
    assert refused(store.read(KERNEL, H200)).code == "unreadable"
    assert refused(store.update(KERNEL, H200, changes(row({"a": 1})))).code in {"unreadable", "unwritable"}
    assert store.read_all().refusals


def test_read_all_finds_what_nobody_reads(tmp_path: Path) -> None:
    """Files in the wrong place are refused; good ones, hidden ones and a README are not."""
    store = Store(tmp_path)
    updated(store.update(KERNEL, H200, changes(row({"a": 1}))))
    good = store.path_for(KERNEL, H200)
    data = good.read_bytes()
    for name in ("top.json", f"{KERNEL}/nvidia_a100.json", f"{KERNEL}/nvidia_h200.json.orig", "other/nvidia_h200.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path / KERNEL / "deeper" / "still").mkdir(parents=True)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "bad.json").write_text("{")
    (tmp_path / "README.md").write_text("x")
    (tmp_path / ".gitignore").write_text("x")
    contents = store.read_all()
    assert list(contents.files) == [good]
    assert {(str(Path(item.path).relative_to(tmp_path)), item.code) for item in contents.refusals} == {
        ("top.json", "misplaced"),
        (f"{KERNEL}/nvidia_a100.json", "other_device"),
        (f"{KERNEL}/nvidia_h200.json.orig", "misplaced"),
        (f"{KERNEL}/deeper", "misplaced"),
        ("other/nvidia_h200.json", "other_kernel"),
        ("bad/bad.json", "not_json"),
    }


def test_a_file_that_others_can_write_steers_no_production(tmp_path: Path) -> None:
    """Where files steer production, the file and its folders must be the user's own; a test run takes them."""
    root = tmp_path / "committed_configs"
    trusting, store = Store(root), Store(root, steers_production=True)
    updated(trusting.update(KERNEL, H200, changes(row({"a": 1}))))
    path = store.path_for(KERNEL, H200)
    for place in (path, path.parent, root):
        place.chmod(0o755 if place.is_dir() else 0o644)
    assert isinstance(store.read(KERNEL, H200), CommittedFile)
    for place in (path, path.parent, root):
        for bit in (stat.S_IWGRP, stat.S_IWOTH):
            mode = stat.S_IMODE(place.stat().st_mode)
            place.chmod(mode | bit)
            assert refused(store.read(KERNEL, H200)).code == "untrusted"
            assert isinstance(trusting.read(KERNEL, H200), CommittedFile)
            place.chmod(mode)
    assert isinstance(store.read(KERNEL, H200), CommittedFile)


def test_a_file_of_another_user_steers_no_production(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root's files are trusted, those of a third user are not."""
    store = Store(tmp_path / "committed_configs", steers_production=True)
    umask = os.umask(0o022)
    updated(store.update(KERNEL, H200, changes(row({"a": 1}))))
    os.umask(umask)
    me = os.geteuid()
    if me == 0:
        for place in (store.root, store.path_for(KERNEL, H200).parent, store.path_for(KERNEL, H200)):
            os.chown(place, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    found = refused(store.read(KERNEL, H200))
    assert found.code == "untrusted"
    assert "belongs to user" in found.text


UNPRIVILEGED = """
import os, sys
from committed_samples import H200, changes, row
from pathlib import Path
from pytest_kernelqual.committed.store import Store
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
store = Store(Path(sys.argv[1]))
print("read:", store.read("rms_norm_fwd", H200))
print("all:", *map(str, store.read_all().refusals))
print("update:", store.update("rms_norm_fwd", H200, changes(row({"cols": 2}))))
"""


@pytest.mark.parametrize("what", ["root", "folder", "file", "unreadable"])
def test_without_permission_nothing_is_lost(what: str) -> None:
    """A read-only folder or file, and one that cannot be read, are one line each; the file stays."""
    with tempfile.TemporaryDirectory() as base:
        Path(base).chmod(0o755)
        store = Store(Path(base) / "committed_configs")
        updated(store.update(KERNEL, H200, changes(row({"cols": 1}))))
        path = store.path_for(KERNEL, H200)
        (store.root / LOCK_FILE).touch()  # some versions of filelock remove it
        for place in (store.root, path.parent, path, store.root / LOCK_FILE):
            place.chmod(0o777 if place.is_dir() else 0o666)
        data = path.read_bytes()
        place, mode = {
            "root": (store.root, 0o555),
            "folder": (path.parent, 0o555),
            "file": (path, 0o444),
            "unreadable": (path, 0o000),
        }[what]
        if what == "root":
            (store.root / LOCK_FILE).unlink()
        place.chmod(mode)
        told = subprocess.run(
            [sys.executable, "-c", UNPRIVILEGED, str(store.root)],
            capture_output=True, text=True, check=False, cwd=base,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent)])},
        )  # fmt: skip
        place.chmod(0o777)
        assert told.returncode == 0, told.stderr
        read, every, update = told.stdout.splitlines()
        assert ("cannot be read" in read) == ("cannot be read" in every) == (what == "unreadable")
        assert "UpdateReport" not in update
        assert str(path) in update
        assert path.read_bytes() == data
        assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_the_file_is_what_its_schema_says(tmp_path: Path) -> None:
    """The file on disk is canonical, with one field for each fact, and nothing else is left in its folder."""
    store = Store(tmp_path)
    updated(store.update(KERNEL, H200, changes(row({"cols": 1}))))
    path = store.path_for(KERNEL, H200)
    plain = json.loads(path.read_bytes())
    assert list(plain) == ["device", "kernel", "rows", "schema", "space", "toolchain"]
    assert list(plain["rows"][0]) == [
        "cache", "config", "evidence", "fixed_output", "key", "measured_at", "method", "output",
        "speed_up", "speed_up_samples", "times_us",
    ]  # fmt: skip
    assert encode(canonical(stored(store))) == path.read_bytes()
    assert list(path.parent.iterdir()) == [path]
