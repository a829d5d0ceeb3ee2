"""Updates that are killed, that meet, or that find the disk full."""

import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from committed_samples import H200, KERNEL, changes, file, row
from filelock import FileLock

from pytest_kernelqual.committed import store as store_module
from pytest_kernelqual.committed.refusal import Refusal
from pytest_kernelqual.committed.schema import CommittedFile, encode
from pytest_kernelqual.committed.store import LOCK_FILE, Store, UpdateReport

HERE = Path(__file__).parent

# Every step of an update that the kernel of the machine sees; the process kills itself before or after the n-th.
KILLED = """
import os, sys
from pathlib import Path
from committed_samples import H200, changes, row
from pytest_kernelqual.committed.store import Store
store, at = Store(Path(sys.argv[1])), int(sys.argv[2])
steps, watched, depth = 0, {"open", "os.mkdir", "os.rename", "os.remove", "fcntl.flock"}, 0
def step():
    global steps
    steps += 1
    if steps == at:
        os.kill(os.getpid(), 9)
def audit(event, args):
    if event in watched and armed:
        step()
armed = False
def wrapped(function):
    def call(*args, **options):
        if armed:
            step()
        result = function(*args, **options)
        if armed:
            step()
        return result
    return call
for name in ("fsync", "replace", "rename", "close", "write"):
    setattr(os, name, wrapped(getattr(os, name)))
sys.addaudithook(audit)
armed = True
found = store.update("rms_norm_fwd", H200, changes(row({"cols": 1}, {"num_warps": 4}), row({"cols": 3})))
armed = False
print(type(found).__name__, steps)
"""

ONE_BY_ONE = """
import sys
from pathlib import Path
from committed_samples import H200, changes, row
from pytest_kernelqual.committed.store import Store, UpdateReport
store = Store(Path(sys.argv[1]))
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    found = store.update("rms_norm_fwd", H200, changes(row({"cols": number})))
    assert isinstance(found, UpdateReport), str(found)
    print(number, flush=True)
"""


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a process that sees the samples."""
    path = os.pathsep.join([str(HERE), str(HERE.parent)])
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})


def keys_of(store: Store) -> list[object]:
    """Return the keys of the file that must be whole."""
    found = store.read(KERNEL, H200)
    assert isinstance(found, CommittedFile), str(found)
    return [item.key["cols"] for item in found.rows]


def test_kill_at_every_step_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    """Wherever an update dies, the file is one of two, and the next update succeeds and cleans up."""
    old = file(row({"cols": 1}), row({"cols": 2}))
    new = file(row({"cols": 1}, {"num_warps": 4}), row({"cols": 2}), row({"cols": 3}))
    seen, at = [], 1
    while True:
        store = Store(tmp_path / str(at))
        assert isinstance(store.update(KERNEL, H200, changes(*old.rows)), UpdateReport)
        path = store.path_for(KERNEL, H200)
        killed = python(KILLED, store.root, at)
        told = killed.communicate()[0]
        seen.append(path.read_bytes())
        assert isinstance(store.update(KERNEL, H200, changes(row({"cols": 4}))), UpdateReport)
        assert keys_of(store) == ([1, 2, 4] if seen[-1] == encode(old) else [1, 2, 3, 4])
        assert list(path.parent.iterdir()) == [path]
        if killed.returncode == 0:
            assert told.startswith("UpdateReport")
            break
        assert killed.returncode == -signal.SIGKILL
        at += 1
    first_new = seen.index(encode(new))
    assert seen == [encode(old)] * first_new + [encode(new)] * (len(seen) - first_new)
    assert 5 < first_new < len(seen) - 1  # it was killed before and after the file changed


def test_kill_at_random_loses_no_row_that_was_reported(tmp_path: Path) -> None:
    """Rows whose update had returned before the kill are all there; at most the one under way is there too."""
    store, start = Store(tmp_path), 0
    for lines in (1, 2, 5, 9):
        process = python(ONE_BY_ONE, tmp_path, start, start + 1000)
        assert process.stdout
        for _ in range(lines):
            process.stdout.readline()
        process.kill()
        process.wait()
        reported = start + lines + len(process.stdout.read().splitlines())
        keys = keys_of(store)
        assert keys == list(range(len(keys)))
        assert reported <= len(keys) <= reported + 1
        start = len(keys)


def test_two_updates_at_once_lose_nothing(tmp_path: Path) -> None:
    """Two processes that add rows one by one end with all rows of both."""
    processes = [python(ONE_BY_ONE, tmp_path, start, start + 40) for start in (0, 1000)]
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert keys_of(Store(tmp_path)) == [*range(40), *range(1000, 1040)]


def test_updates_of_threads_lose_nothing(tmp_path: Path) -> None:
    """The lock also stands between two stores of one process."""

    def add(start: int) -> None:
        for number in range(start, start + 10):
            Store(tmp_path).update(KERNEL, H200, changes(row({"cols": number})))

    threads = [threading.Thread(target=add, args=(start,)) for start in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert keys_of(Store(tmp_path)) == [*range(10), *range(100, 110), *range(200, 210)]


def test_a_lock_that_is_never_released_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update waits for another one, but not for ever."""
    monkeypatch.setattr(store_module, "_LOCK_TIMEOUT_S", 0.05)
    with FileLock(tmp_path / LOCK_FILE):
        found = Store(tmp_path).update(KERNEL, H200, changes(row({"cols": 1})))
    assert isinstance(found, Refusal)
    assert found.code == "unwritable"
    assert "another update" in found.text
    assert not Store(tmp_path).path_for(KERNEL, H200).exists()


def test_a_full_disk_keeps_the_old_file(tmp_path: Path) -> None:
    """A file that cannot grow is one line; the old file stays, no temporary file does, and reading goes on."""
    store = Store(tmp_path)
    assert isinstance(store.update(KERNEL, H200, changes(row({"cols": 1}))), UpdateReport)
    path = store.path_for(KERNEL, H200)
    data = path.read_bytes()
    many = changes(*(row({"cols": number}) for number in range(100)))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        found = store.update(KERNEL, H200, many)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert isinstance(found, Refusal)
    assert found.code == "unwritable"
    assert "File too large" in found.text
    assert path.read_bytes() == data
    assert list(path.parent.iterdir()) == [path]
    assert isinstance(store.update(KERNEL, H200, many), UpdateReport)


@pytest.mark.parametrize("name", ["fsync", "open", "link"])
def test_a_failing_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """An error of any call of the file system is a refusal, and the old file or the new one is there."""
    store = Store(tmp_path)
    store.update(KERNEL, H200, changes(row({"cols": 1})))

    def broken(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, name, broken)
        found = store.update(KERNEL, H200, changes(row({"cols": 2})))
    assert isinstance(found, UpdateReport if name == "link" else Refusal)
    assert keys_of(store) in ([1], [1, 2])
