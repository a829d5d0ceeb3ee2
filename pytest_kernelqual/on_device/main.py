"""The device process: answer requests over a socket until the owner goes away."""

import contextlib
import faulthandler
import fcntl
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from pytest_kernelqual.errors import KernelqualError
from pytest_kernelqual.launch import check_config, describe_kernel
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import (
    Describe,
    EnvironmentRead,
    Hello,
    Open,
    Opened,
    Output,
    Progress,
    ReadEnvironment,
    ReadOutput,
    Refused,
    Reply,
    Request,
    Try,
    Tried,
    decode_request,
    decode_start,
    encode,
)
from pytest_kernelqual.model.outcome import Phase
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.model.spec import KernelSpec
from pytest_kernelqual.on_device.environment import choose, read_environment, visible_devices
from pytest_kernelqual.on_device.loader import Loader, user_traceback
from pytest_kernelqual.on_device.qualify import OpenCase


class Server:
    """Answer requests one by one; holds the spec files that were imported and the case that is open."""

    def __init__(self, settings: Settings, send: Callable[[Reply], None]) -> None:
        """Choose the device; SettingsError when the asked one is not there.

        Args:
            settings: Options of the run.
            send: Takes `Progress` while a request is being answered.
        """
        self._settings = settings
        self._send = send
        self.device = choose(settings)
        self._loader = Loader(settings, interpreted=self.device.interpreted)
        self.open_case: OpenCase | None = None
        self._spec: KernelSpec | None = None

    def hello(self) -> Hello:
        """Return what the owner must know first."""
        return Hello(kind=self.device.kind, devices=visible_devices())

    def answer(self, request: Request) -> Reply:
        """Answer one request; an error of ours is `Refused`."""
        try:
            return self._answer(request)
        except KernelqualError as error:
            return Refused(message=str(error))

    def _answer(self, request: Request) -> Reply:
        match request:
            case Describe():
                return self._loader.describe(request.path)
            case ReadEnvironment():
                seeds, repeats = self._settings.effort(self.device.kind)
                return EnvironmentRead(
                    environment=read_environment(self.device, self._settings, seeds=seeds, repeats=repeats)
                )
            case Open():
                return self._open(request)
            case Try():
                return self._try(Config(request.config))
            case ReadOutput():
                return Output(outputs=self._opened().output())

    def _open(self, request: Open) -> Opened:
        self.open_case = None  # frees the memory of the previous case first
        spec = self._loader.find(request.path, request.spec)
        _, repeats = self._settings.effort(self.device.kind, spec.seeds, spec.repeats)
        self._spec = spec
        self.open_case = OpenCase(
            spec,
            self._loader.find_case(spec, request.case),
            stream=f"{self._settings.seed}/{request.seed_index}/{request.spec}/{request.case}",
            device=self.device,
            repeats=repeats,
            on_progress=self._progress,
        )
        return self.open_case.open()

    def _try(self, config: Config) -> Tried:
        opened = self._opened()
        if self._spec is not None and self._spec.kernel is not None:
            problem = config.problem() or check_config(describe_kernel(self._spec.kernel), config)
            if problem:
                return Tried(outcome="unsupported", reason=problem)
        return opened.attempt(config)

    def _opened(self) -> OpenCase:
        if self.open_case is None:
            raise KernelqualError("no case is open; this is a fault of the tool")
        return self.open_case

    def _progress(self, phase: Phase, launches: int) -> None:
        self._send(Progress(phase=phase, launches=launches))


def serve(channel: socket.socket) -> None:
    """Answer the owner until it closes the channel, or until a kernel made the device unusable."""
    stream = channel.makefile("rwb")

    def send(reply: Reply) -> None:
        stream.write(encode(reply))
        stream.flush()

    start = decode_start(stream.readline())
    try:
        server = Server(start.settings, send)
    except KernelqualError as error:
        send(Refused(message=str(error)))
        return
    send(server.hello())
    for line in stream:
        try:
            reply = server.answer(decode_request(line))
        except Exception as error:  # noqa: BLE001 - the owner is told, whatever it was
            reply = Refused(message=f"fault of the tool: {user_traceback(error)}")
        send(reply)
        if isinstance(reply, Opened | Tried) and reply.fatal:
            os._exit(0)  # no teardown: a device that faulted would hang or abort in it


def _die_with_owner(leash: int) -> None:
    """End this process as soon as the owner's end of the leash closes, also while a kernel or compiler never returns.

    The kernel raises SIGIO when the other end closes; its default action ends the process without running Python.
    A thread does the same where signals on pipes are not delivered.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    with contextlib.suppress(OSError):
        fcntl.fcntl(leash, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(leash, fcntl.F_SETFL, fcntl.fcntl(leash, fcntl.F_GETFL) | os.O_ASYNC)

    def watch() -> None:
        with contextlib.suppress(OSError):
            os.read(leash, 1)
        os._exit(0)

    threading.Thread(target=watch, name="kernelqual-leash", daemon=True).start()


def _no_breakpoints(*_args: Any, **_kwargs: Any) -> None:
    """Pass over a forgotten breakpoint: this process has no terminal; --kernelqual-in-process has."""
    print("breakpoint() ignored in the device process; use --kernelqual-in-process", file=sys.stderr)  # noqa: T201 - its log


def main() -> None:
    """Run with the descriptors of the channel and of the leash as arguments."""
    channel, leash = int(sys.argv[1]), int(sys.argv[2])
    sys.argv = ["kernelqual-device"]
    faulthandler.enable()
    sys.breakpointhook = _no_breakpoints
    _die_with_owner(leash)
    with socket.socket(fileno=channel) as connection:
        serve(connection)
