"""Claims: of all runs of a user on a machine, one compiles a code object and the others wait for it."""

import contextlib
import fcntl
import os
import tempfile
from pathlib import Path


class Claims:
    """Hold claims by key; the end of the process, however it comes, gives them up."""

    def __init__(self) -> None:
        """Prepare the folder; where it cannot be had, every claim is granted."""
        self._folder: Path | None = Path(tempfile.gettempdir()) / f"kernelqual-{os.getuid()}" / "compiling"
        self._held: dict[str, int] = {}
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            self._folder = None

    def take(self, key: str) -> bool:
        """Claim a key; False while another process holds it."""
        if self._folder is None:
            return True
        try:
            descriptor = os.open(self._folder / key, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:  # no room, say: then it is compiled twice at worst
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            return not isinstance(error, BlockingIOError)
        self._held[key] = descriptor
        return True

    def told(self, key: str, since: float) -> str:
        """Return what another process left about a claimed key since a time, else an empty text."""
        if key not in self._held or os.fstat(self._held[key]).st_mtime < since:
            return ""
        return os.pread(self._held[key], 1 << 20, 0).decode(errors="replace")

    def release(self, key: str, told: str | None) -> None:
        """Give a claim up and tell those that wait for it what came of it.

        An empty text where Triton's cache tells; None leaves what was told before.
        """
        descriptor = self._held.pop(key, None)
        if descriptor is None or self._folder is None:
            return
        with contextlib.suppress(OSError):
            if told:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, told.encode(), 0)
            elif told is not None:
                (self._folder / key).unlink()
        # Said aloud, since a forked process may hold the descriptor too.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
