"""The lock of a device, across processes."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from acceptance import wait_until

from pytest_kernelqual.errors import SettingsError
from pytest_kernelqual.processes import locks
from pytest_kernelqual.processes.locks import DeviceLock

# Says that it wants the lock, then that it holds it, and holds it until its input ends.
_HOLDER = """
import sys
from pathlib import Path
from pytest_kernelqual.processes import locks
if len(sys.argv) == 4:  # else where the locks of real runs are
    locks._PLACES = ()
lock = locks.DeviceLock(sys.argv[2])
Path(sys.argv[3] + ".asked").touch()
with getattr(lock, sys.argv[1])():
    Path(sys.argv[3]).touch()
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the locks of these tests apart from those of real runs."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(locks, "_PLACES", ())


class Holder:
    """A process that holds a lock, or waits for it."""

    def __init__(self, how: str, uuid: str, mark: Path, *more: str, **environment: str) -> None:
        """Start it."""
        self.mark = mark
        command = [sys.executable, "-c", _HOLDER, how, uuid, str(mark), *more]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, **environment})

    @property
    def holds(self) -> bool:
        """Tell whether it has got the lock."""
        return self.mark.exists()

    def wait(self) -> "Holder":
        """Wait until it holds the lock."""
        wait_until(lambda: self.holds, "the lock was never given")
        return self

    def release(self) -> None:
        """Let it end."""
        self.process.communicate()
        assert self.process.returncode == 0


Start = Callable[..., Holder]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start holders, and leave none behind."""
    started: list[Holder] = []

    def begin(how: str, uuid: str = "GPU-1", *more: str, **environment: str) -> Holder:
        started.append(Holder(how, uuid, tmp_path / f"holder{len(started)}", *more, **environment))
        return started[-1]

    yield begin
    for holder in started:
        holder.process.kill()
        holder.process.communicate()


def waits(holder: Holder) -> bool:
    """Tell whether it is still waiting after another process came up and went."""
    asked = holder.mark.with_name(f"{holder.mark.name}.asked")
    wait_until(asked.exists, "the lock was never asked for")
    subprocess.run([sys.executable, "-c", _HOLDER, "shared", "GPU-other", f"{asked}.other"], input=b"", check=True)
    return not holder.holds


def test_readers_share(start: Start) -> None:
    """Correctness work goes on side by side."""
    first = start("shared").wait()
    second = start("shared").wait()
    first.release()
    second.release()


def test_timing_waits_for_readers_and_readers_for_timing(start: Start) -> None:
    """In both orders; a device of another UUID is not concerned."""
    reader = start("shared").wait()
    timing = start("exclusive")
    assert waits(timing)
    other = start("exclusive", "GPU-2").wait()
    reader.release()
    timing.wait()
    late = start("shared")
    assert waits(late)
    timing.release()
    late.wait().release()
    other.release()


def test_timing_is_not_starved(start: Start) -> None:
    """Who comes to share while somebody waits to time waits behind."""
    reader = start("shared").wait()
    timing = start("exclusive")
    assert waits(timing)
    late = start("shared")
    assert waits(late)
    reader.release()
    timing.wait()
    assert waits(late)
    timing.release()
    late.wait().release()


@pytest.mark.parametrize("how", ["shared", "exclusive"])
def test_a_killed_holder_gives_the_device_free(start: Start, how: str) -> None:
    """However it held it."""
    holder = start(how).wait()
    timing = start("exclusive")
    assert waits(timing)
    holder.process.kill()
    timing.wait().release()


def test_one_thread_may_nest_and_then_time(start: Start) -> None:
    """As an item that qualifies within another's hold, and then the next one that times."""
    lock = DeviceLock("GPU-1")
    with lock.shared():
        timing = start("exclusive")
        assert waits(timing)
        with lock.shared(), DeviceLock("GPU-1").shared():
            assert waits(timing)
        assert waits(timing)
    timing.wait().release()
    with lock.exclusive():
        reader = start("shared")
        assert waits(reader)
    reader.wait().release()
    with lock.shared():
        start("shared").wait().release()


def test_an_error_within_gives_the_device_free(start: Start) -> None:
    """A failing item holds nothing."""
    with pytest.raises(ValueError, match="planted"), DeviceLock("GPU-1").exclusive():
        raise ValueError("planted")
    start("exclusive").wait().release()


def test_without_a_device_nothing_is_locked(tmp_path: Path) -> None:
    """The interpreter needs no lock, and none is made."""
    lock = DeviceLock("")
    with lock.exclusive(), lock.shared(), lock.exclusive():
        assert list(tmp_path.iterdir()) == []


def test_strange_names_have_locks_of_their_own(tmp_path: Path) -> None:
    """As those of MIG instances, and ones that would leave the folder."""
    names = ["MIG-GPU-1/7/0", "../../outside", "GPU-1"]
    with ExitStack() as held:
        for name in names:
            held.enter_context(DeviceLock(name).exclusive())
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len({path.name.partition(".lock")[0] for path in folder.iterdir()}) == len(names)


@contextmanager
def blocked(path: Path) -> Iterator[None]:
    """Have a file where the folder of locks would be."""
    path.write_text("")
    yield
    path.unlink()


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do."""
    monkeypatch.setattr("os.getuid", lambda: 7)
    with blocked(tmp_path / "kernelqual-7"), pytest.raises(SettingsError, match="or set TMPDIR to one that is"):
        DeviceLock("GPU-1")


def test_runs_with_other_folders_for_temporary_files_exclude_each_other(tmp_path: Path, start: Start) -> None:
    """As jobs of one machine that have a TMPDIR each."""
    uuid = f"GPU-{uuid4()}"
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    try:
        timing = start("exclusive", uuid, "where real runs are", TMPDIR=str(folders[0])).wait()
        other = start("shared", uuid, "where real runs are", TMPDIR=str(folders[1]))
        assert waits(other)
        timing.release()
        other.wait().release()
        assert [list(folder.iterdir()) for folder in folders] == [[], []]
    finally:
        for place in ("/tmp", "/dev/shm"):  # noqa: S108 - where the lock may be
            for left in Path(place).glob(f"kernelqual-{os.getuid()}/{uuid}*"):
                left.unlink()


def open_to_all(folder: Path) -> None:
    """Have a folder of this user's that others may write to."""
    folder.mkdir()
    folder.chmod(0o777)


def link(folder: Path) -> None:
    """Have a link to a folder that could be used."""
    folder.with_name("elsewhere").mkdir(mode=0o700)
    folder.symlink_to("elsewhere")


def no_folder(folder: Path) -> None:
    """Have a file."""
    folder.touch()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (open_to_all, r"may be written to by others \(mode 777\)"),
        (link, "is a link"),
        (no_folder, "File exists"),
    ],
)
def test_a_folder_that_somebody_else_prepared_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], told: str
) -> None:
    """The next place is; where there is none, what is wrong is said."""
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setattr(locks, "_PLACES", (first, second))
    for place in (first, second):
        place.mkdir()
    make(first / f"kernelqual-{os.getuid()}")
    with DeviceLock("GPU-1").exclusive():
        assert list((second / f"kernelqual-{os.getuid()}").iterdir())
    monkeypatch.setattr(locks, "_PLACES", ())
    monkeypatch.setattr("tempfile.tempdir", str(first))
    with pytest.raises(SettingsError, match=told):
        DeviceLock("GPU-1")


def test_a_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However inviting it is."""
    monkeypatch.setattr("os.getuid", lambda: 54321)
    (tmp_path / "kernelqual-54321").mkdir(mode=0o700)
    owner = tmp_path.stat().st_uid
    with pytest.raises(SettingsError, match=f"kernelqual-54321 belongs to user {owner}"):
        DeviceLock("GPU-1")


def test_a_place_that_is_not_there_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And TMPDIR is the last one."""
    monkeypatch.setattr(locks, "_PLACES", (tmp_path / "missing",))
    with DeviceLock("GPU-1").exclusive():
        assert list((tmp_path / f"kernelqual-{os.getuid()}").iterdir())
