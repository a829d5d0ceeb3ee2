"""The device process: answer requests over a socket until the owner goes away."""

import atexit
import contextlib
import faulthandler
import fcntl
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pytest_kernelqual.errors import KernelqualError, SettingsError
from pytest_kernelqual.files.phase_board import PhaseBoard
from pytest_kernelqual.model.messages import Hello, Progress, Refused, Reply, decode_request, decode_start, encode
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.model.targets import find_target

if TYPE_CHECKING:
    from pytest_kernelqual.on_device.server import Server


def prepare(settings: Settings, send: Callable[[Reply], None]) -> "tuple[Server, Hello]":
    """Choose the device, only then import what imports triton, and return the server and what its owner must know.

    Raises:
        SettingsError: The asked device is not there, or torch or triton is not installed.
    """
    try:
        from pytest_kernelqual.on_device import environment  # noqa: PLC0415 - see above

        devices = environment.visible_devices()
        device = environment.choose(settings)
        show = environment.show_from_outside(devices)
        if not show:
            environment.check_same(device, settings)
        from pytest_kernelqual.on_device.server import Server  # noqa: PLC0415 - see above

        if device.target:
            from pytest_kernelqual.launch.targets import activate  # noqa: PLC0415 - see above

            activate(find_target(device.target))

        if device.interpreted:
            from pytest_kernelqual.on_device.interpreter import prepare_interpreter  # noqa: PLC0415 - see above

            prepare_interpreter()
    except ModuleNotFoundError as error:
        if error.name not in {"torch", "triton"}:
            raise
        raise SettingsError(
            f"{error.name} is not installed for {sys.executable}: install pytest-kernelqual[torch,triton]"
        ) from None
    return Server(settings, device, send), Hello(kind=device.kind, devices=devices, show=show)


def serve(channel: socket.socket, board: PhaseBoard) -> None:
    """Answer the owner until it closes the channel, or until a kernel made the device unusable."""
    stream = channel.makefile("rwb")
    process = os.getpid()

    def send(reply: Reply) -> None:
        if os.getpid() != process:  # a child that a launch forked, and that went on: nobody has asked it
            os._exit(0)
        if isinstance(reply, Progress) and reply.compiled is None:
            board.write(reply.phase, reply.launches)
            return
        stream.write(encode(reply))
        stream.flush()

    start = decode_start(stream.readline())
    try:
        server, hello = prepare(start.settings, send)
    except KernelqualError as error:
        send(Refused(message=str(error)))
        return
    send(hello)
    for line in stream:
        try:
            reply = server.answer(decode_request(line))
            send(reply)
        except Exception as error:  # noqa: BLE001 - the owner is told, whatever it was
            told = "".join(traceback.format_exception(error))
            reply = Refused(message=f"fault of the tool: {told}")
            send(reply)
        if getattr(reply, "fatal", False):
            os._exit(0)  # no teardown: a device that faulted would hang or abort in it


def _die_with_owner(leash: int) -> None:
    """End this process as soon as the owner's end of the leash closes, also while a kernel or compiler never returns.

    The kernel raises SIGIO when the other end closes; its default action ends the process without running Python,
    and with it the compilers that it started: the owner gave it a process group of its own.
    A thread does the same where signals on pipes are not delivered.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    group = os.getpgrp() == os.getpid()
    with contextlib.suppress(OSError):
        fcntl.fcntl(leash, fcntl.F_SETOWN, -os.getpid() if group else os.getpid())
        fcntl.fcntl(leash, fcntl.F_SETFL, fcntl.fcntl(leash, fcntl.F_GETFL) | os.O_ASYNC)

    def watch() -> None:
        with contextlib.suppress(OSError):
            os.read(leash, 1)
        if group:
            os.killpg(os.getpid(), signal.SIGKILL)
        os._exit(0)

    threading.Thread(target=watch, name="kernelqual-leash", daemon=True).start()


def _no_breakpoints(*_args: Any, **_kwargs: Any) -> None:
    """Pass over a forgotten breakpoint: this process has no terminal; --kernelqual-in-process has."""
    print("breakpoint() ignored in the device process; use --kernelqual-in-process", file=sys.stderr)  # noqa: T201 - its log


def main() -> None:
    """Run with the descriptors of the channel, of the leash and of the phase board as arguments."""
    channel, leash, board = map(int, sys.argv[1:4])
    sys.argv = ["kernelqual-device"]
    faulthandler.enable(all_threads=False)  # the thread that died tells all; the leash's would only confuse
    sys.breakpointhook = _no_breakpoints
    _die_with_owner(leash)
    with socket.socket(fileno=channel) as connection:
        serve(connection, PhaseBoard(board))
    atexit._run_exitfuncs()  # noqa: SLF001 - what users have registered, a measurement of coverage say
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # to take a device's libraries down in order takes a second, and the owner waits
