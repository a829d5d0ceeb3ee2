"""Endings from outside: SIGTERM ends a run as Ctrl-C does, and neither cuts the report short."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGTERM_TEXT = "SIGTERM"


class Signals:
    """Handlers of this process while a run goes on; without effect outside the main thread, where none can be set."""

    def __init__(self) -> None:
        """Nothing is set yet."""
        self._previous: Any = None

    def install(self) -> None:
        """Let SIGTERM raise KeyboardInterrupt once."""
        if _settable():
            self._previous = signal.signal(signal.SIGTERM, _terminated)

    def ignore(self) -> None:
        """Let no SIGTERM come between the report and the other files of the run."""
        if self._previous is not None and _settable():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def restore(self) -> None:
        """Put back what was set before."""
        if self._previous is not None and _settable():
            signal.signal(signal.SIGTERM, self._previous)
            self._previous = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold back Ctrl-C and SIGTERM until the block has ended."""
        if not _settable():
            yield
            return
        came: list[int] = []
        previous = {
            number: signal.signal(number, lambda number, _frame: came.append(number))
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)
            for late in came[:1]:
                signal.raise_signal(late)


def _settable() -> bool:
    return threading.current_thread() is threading.main_thread()


def _terminated(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # whoever asks twice gets the report all the same
    raise KeyboardInterrupt(SIGTERM_TEXT)
