"""Who may use a device when: correctness work shares it, timing has it alone."""

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import ReadWriteLock

from pytest_kernelqual.errors import SettingsError

_UNSAFE = re.compile(r"[^A-Za-z0-9-]")

# Runs whose TMPDIR differs, as jobs of one machine have it, must meet in one folder.
_PLACES = (Path("/tmp"), Path("/dev/shm"))  # noqa: S108 - what is found there is not trusted
_WHAT_TO_DO = "make one of these folders usable, or set TMPDIR to one that is"


class DeviceLock:
    """One lock a device, for all runs of a user on a machine; a killed holder releases it.

    Without a device (`uuid` empty) nothing is locked.
    """

    def __init__(self, uuid: str) -> None:
        """Name the lock by the UUID of the device.

        Raises:
            SettingsError: The folder of locks cannot be made.
        """
        self._lock: ReadWriteLock | None = None
        if not uuid:
            return
        folder = _folder()
        try:
            self._lock = ReadWriteLock(folder / f"{_UNSAFE.sub('_', uuid)}.lock")
        except (OSError, ValueError) as error:
            raise SettingsError(f"cannot make the device lock in {folder}: {error}; {_WHAT_TO_DO}") from None

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the device together with others that do not time."""
        if self._lock is None:
            yield
            return
        with self._lock.read_lock():
            yield

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the device alone."""
        if self._lock is None:
            yield
            return
        with self._lock.write_lock():
            yield


def _folder() -> Path:
    """Return this user's folder of locks, in the first place that can be used."""
    problems = []
    for place in (*_PLACES, None):
        try:
            folder = (place or Path(tempfile.gettempdir())) / f"kernelqual-{os.getuid()}"
            folder.mkdir(mode=0o700, exist_ok=True)
            problem = _problem(folder)
        except OSError as error:
            problems.append(str(error))
            continue
        if not problem:
            return folder
        problems.append(f"{folder} {problem}")
    told = "; ".join(dict.fromkeys(problems))
    raise SettingsError(f"cannot make the folder of device locks: {told}; {_WHAT_TO_DO}")


def _problem(folder: Path) -> str:
    """Say why a folder cannot be used; whoever could replace a lock could also have it point somewhere."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return "is a link"
    if found.st_uid != os.getuid():
        return f"belongs to user {found.st_uid}"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"may be written to by others (mode {stat.S_IMODE(found.st_mode):o})"
    return "" if os.access(folder, os.W_OK | os.X_OK) else "cannot be written to"
