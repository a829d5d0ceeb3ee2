"""The device inside the pytest process: for debuggers, interpreted kernels only."""

import os
import sys
from typing import TYPE_CHECKING

from msgspec import structs

from pytest_kernelqual.errors import KernelqualError, SettingsError
from pytest_kernelqual.model.messages import Hello, Progress, Refused, Reply, Request
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.on_device.main import prepare
from pytest_kernelqual.processes.device import Limits, OnProgress

if TYPE_CHECKING:  # importing it imports triton, which must wait until the interpreter is chosen
    from pytest_kernelqual.on_device.server import Server


class InProcessDevice:
    """Answer requests in this process, where a debugger can stop in kernels and builders; no limits, no protection."""

    def __init__(self, settings: Settings) -> None:
        """Refuse every device but the interpreter: a fault on a GPU would take pytest with it."""
        if settings.device not in ("auto", "interpreter"):
            raise SettingsError(
                "--kernelqual-in-process runs the Triton interpreter only, and device "
                f"{settings.device!r} was asked for; leave one of the two out"
            )
        if "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
            raise SettingsError(
                "triton was imported without TRITON_INTERPRET=1 before --kernelqual-in-process could set it; "
                "set TRITON_INTERPRET=1 in the environment"
            )
        self._settings = settings
        self._server: tuple[Server, Hello] | None = None
        self._on_progress: OnProgress | None = None

    lost = False

    @property
    def last_error(self) -> BaseException | None:
        """Return the exception of the last builder or launch that raised, with its frames."""
        opened = self._server[0].open_case if self._server is not None else None
        return opened.executor.last_error if opened is not None else None

    def begin(self) -> None:
        """Do nothing: there is no process to wait for."""

    def hello(self) -> Hello:
        """Choose the interpreter and return it."""
        return self._prepared()[1]

    def ask(self, request: Request, limits: Limits, on_progress: OnProgress | None = None) -> Reply:
        """Answer at once; `limits` are not applied, as a person may be looking at a breakpoint."""
        del limits
        self._on_progress = on_progress
        reply = self._prepared()[0].answer(request)
        if isinstance(reply, Refused):
            raise KernelqualError(reply.message)
        return reply

    def log(self) -> str:
        """Return nothing: pytest captures the output itself."""
        return ""

    def close(self) -> None:
        """Forget the open case."""
        self._server = None

    def _prepared(self) -> "tuple[Server, Hello]":
        if self._server is None:
            self._server = prepare(structs.replace(self._settings, device="interpreter"), self._pass_on)
        return self._server

    def _pass_on(self, reply: Reply) -> None:
        if self._on_progress is not None and isinstance(reply, Progress):
            self._on_progress(reply)
