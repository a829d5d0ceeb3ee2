"""A line of progress behind the running item, where a person is watching."""

import sys
import time
from types import TracebackType
from typing import Any, Self

import pytest

_QUIET_S = 0.5
_SAVE, _RESTORE, _CLEAR = "\x1b7", "\x1b8", "\x1b[K"


class Progress:
    """Write to the terminal and take it back again; nothing where the output is no terminal."""

    def __init__(self, config: pytest.Config) -> None:
        """Find the terminal."""
        reporter: Any = config.pluginmanager.getplugin("terminalreporter")
        writer = getattr(reporter, "_tw", None)
        self._writer: Any = writer if writer is not None and _is_terminal(writer) else None
        self._shown = False
        self._next = time.monotonic() + _QUIET_S

    def show(self, text: str) -> None:
        """Show `text` on what is left of the line, at most twice a second."""
        now = time.monotonic()
        if self._writer is None or now < self._next:
            return
        self._next = now + _QUIET_S
        room = self._writer.fullwidth - self._writer.width_of_current_line - 2
        self._raw(f"{_SAVE} {text[: max(room, 0)]}{_CLEAR}{_RESTORE}")
        self._shown = True

    def __enter__(self) -> Self:
        """Return the progress."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Take the line back."""
        if self._shown:
            self._raw(_CLEAR)

    def _raw(self, text: str) -> None:
        # Past the writer, which would count the text as part of the line.
        self._writer._file.write(text)  # noqa: SLF001 - the file that pytest itself writes to
        self._writer.flush()


def _is_terminal(writer: Any) -> bool:
    file = getattr(writer, "_file", sys.stdout)
    return bool(getattr(file, "isatty", lambda: False)())
