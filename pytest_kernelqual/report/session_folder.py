"""The folder of a run's journal, claimed by one run at a time."""

import fcntl
import os
import shutil
from pathlib import Path

from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.report.journal import PLAN_FILE


class SessionFolder:
    """Claim the folder for this run; what a run that was killed left there is set aside, not lost."""

    def __init__(self, path: Path) -> None:
        """Take the folder, or say who has it.

        Raises:
            DocumentError: A run that is still going on has it, or it cannot be used.
        """
        self.path = path
        self.aside: Path | None = None
        """Where an earlier run's journal was moved to; None where there was none."""
        try:
            if path.exists():
                os.close(self._lock())
                self._set_aside()
            path.mkdir()
            self._descriptor = self._lock()
        except OSError as error:
            raise DocumentError(
                f"cannot journal to {str(path)!r}: {error.strerror or error}; give a report path in a folder that "
                "can be written and has room"
            ) from error

    def release(self, *, keep: bool) -> None:
        """Give the folder up; it is removed unless it holds records that stand nowhere else."""
        recorded = any(journal.stat().st_size for journal in self.path.glob("*.jsonl"))
        if not (keep and recorded):
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._descriptor)

    def _lock(self) -> int:
        """Return a descriptor that holds the lock until it is closed, which the end of the process does too."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise DocumentError(
                f"another run is going on and journals to {str(self.path)!r}; "
                "wait for it, or give this one its own --kernelqual-json"
            ) from None
        except OSError:  # a file system without locks: two runs at once are then the user's care
            return descriptor
        return descriptor

    def _set_aside(self) -> None:
        if not (self.path / PLAN_FILE).exists():  # killed before it had anything to do
            shutil.rmtree(self.path)
            return
        self.aside = self.path.with_name(f"{self.path.name}.previous")
        shutil.rmtree(self.aside, ignore_errors=True)
        self.path.rename(self.aside)
