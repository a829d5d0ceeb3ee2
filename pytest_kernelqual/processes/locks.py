"""Who may use a device when: correctness work shares it, timing has it alone."""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import ReadWriteLock

from pytest_kernelqual.errors import SettingsError

_UNSAFE = re.compile(r"[^A-Za-z0-9-]")


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
        folder = Path(tempfile.gettempdir()) / f"kernelqual-{os.getuid()}"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            self._lock = ReadWriteLock(folder / f"{_UNSAFE.sub('_', uuid)}.lock")
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"cannot make the device lock in {folder}: {error}; set TMPDIR to a usable folder"
            ) from None

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
