"""Start, ask, watch and end the device process."""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from msgspec import structs

from pytest_kernelqual.errors import DeviceProcessError, KernelqualError, SettingsError
from pytest_kernelqual.files.phase_board import PhaseBoard, Whereabouts, shared_memory
from pytest_kernelqual.model.messages import (
    EnvironmentRead,
    Hello,
    Progress,
    Refused,
    Reply,
    Request,
    Start,
    decode_reply,
    encode,
)
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.processes.device import STARTING, Limits, OnProgress

_LOG_BYTES = 16_384
_CLOSE_S = 10.0
_READ_BYTES = 1 << 20
_LOOK_S = 0.1  # so often it is looked what a process is at that has not answered
_NO_LIMITS = Limits(0, 0, 0)

# The child must find the same modules as this process, the tool's own among them, before it imports anything.
_BOOTSTRAP = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from pytest_kernelqual.on_device.main import main; main()"
)


class DeviceProcess:
    """Own one device process at a time: started when first asked, started again after it died."""

    def __init__(self, settings: Settings) -> None:
        """Keep the settings; nothing is started yet."""
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._board: PhaseBoard | None = None
        self._leash = -1
        self._received = bytearray()
        self._hello: Hello | None = None
        # Unnamed, so that nothing is left behind however the run ends.
        self._log = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - lives as long as this object
        fcntl.fcntl(self._log, fcntl.F_SETFL, os.O_APPEND)
        self._log_read = 0
        self.lost = False
        """It could not be started when it was last tried."""

    @property
    def last_error(self) -> BaseException | None:
        """Return None: exceptions stay in the device process."""
        return None

    def begin(self) -> None:
        """Start the process if need be, and do not wait until it is ready."""
        if self._process is None:
            self._start()

    def hello(self) -> Hello:
        """Start if need be, and return what the process runs on."""
        self.begin()
        if self._hello is None:
            self._hello = self._ready()
        if self._hello.show and self._settings.visible_device is None:
            self.close()
            self._settings = structs.replace(self._settings, visible_device=self._hello.show)
            return self.hello()
        return self._hello

    def ask(self, request: Request, limits: Limits, on_progress: OnProgress | None = None) -> Reply:
        """Send a request and return the reply.

        Raises:
            DeviceProcessError: The process ended, or was ended because a phase took longer than its limit.
            SettingsError: The asked device is not there.
            KernelqualError: The request was refused; the message says why.
        """
        self.hello()
        here = Whereabouts("inputs", 0, time.monotonic())
        try:
            self._send(encode(request))
            while True:
                line, here = self._answer(here, limits)
                reply = decode_reply(line)
                if not isinstance(reply, Progress):
                    break
                here = Whereabouts(reply.phase, reply.launches, time.monotonic())
                if on_progress is not None:
                    on_progress(reply)
        except _NoAnswer as silence:
            here = self._newest(here)
            raise self._end(silence, here.phase, here.launches, limits) from None
        except BaseException:
            self.kill()  # interrupted: what it would answer belongs to no later request
            raise
        if isinstance(reply, Refused):
            raise KernelqualError(reply.message)
        if isinstance(reply, EnvironmentRead):
            # Whatever process comes after this one must have the same device.
            self._settings = structs.replace(self._settings, device_uuid=reply.environment.device.uuid)
        if getattr(reply, "fatal", False):
            self.kill()
        return reply

    def post(self, requests: Sequence[Request]) -> None:
        """Send requests without waiting, and start before if need be; `collect` returns the replies in this order.

        Nothing else may be asked until all are collected.
        """
        self.begin()
        try:
            self._send(b"".join(map(encode, requests)))
        except _NoAnswer as silence:
            raise self._end(silence, STARTING, 0, _NO_LIMITS) from None

    def collect(self, limit_s: float) -> Reply | None:
        """Return the next reply to what `post` sent; None where it is not there within the limit.

        Raises:
            DeviceProcessError, SettingsError, KernelqualError: As for `ask`.
        """
        deadline = time.monotonic() + limit_s
        try:
            if self._hello is None:
                self._hello = self._greeted(deadline)
            reply = decode_reply(self._read_line(deadline))
        except _NoAnswer as silence:
            if silence.timed_out:
                return None
            raise self._end(silence, "compile", 0, _NO_LIMITS) from None
        if isinstance(reply, Refused):
            raise KernelqualError(reply.message)
        if getattr(reply, "fatal", False):
            self.kill()
        return reply

    def log(self) -> str:
        """Return what the process wrote to stdout and stderr since the last call, at most its last 16 KiB."""
        # Read past the file's offset, which the writing process shares.
        end = os.fstat(self._log.fileno()).st_size
        begin = max(self._log_read, end - _LOG_BYTES)
        data = os.pread(self._log.fileno(), end - begin, begin)
        self._log_read = end
        return data.decode(errors="replace").strip()

    def kill(self) -> None:
        """End the process and all that it started, at once."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        self._disconnect()
        with contextlib.suppress(subprocess.TimeoutExpired):  # a process stuck in the driver dies when it can
            process.wait(_CLOSE_S)

    def close(self) -> None:
        """Let the process end by itself; kill it when it does not."""
        if self._process is not None and self._channel is not None:
            self._channel.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_CLOSE_S)
        self.kill()

    def _start(self) -> None:
        try:
            memory = shared_memory()
        except OSError as error:
            raise DeviceProcessError(f"the device process cannot be started: {error}", phase=STARTING) from error
        self._board = PhaseBoard(memory.fileno())
        ours, theirs = socket.socketpair()
        leash_read, leash_write = os.pipe()
        fds = (theirs.fileno(), leash_read, memory.fileno())
        command = [sys.executable, "-X", "faulthandler", "-c", _BOOTSTRAP, json.dumps(_sys_path()), *map(str, fds)]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                command,
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env=self._environment(),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            os.close(leash_write)
            raise DeviceProcessError(f"the device process cannot be started: {error}", phase=STARTING) from error
        finally:
            theirs.close()
            os.close(leash_read)
            memory.close()
        self._channel, self._leash, self._received = ours, leash_write, bytearray()
        self._hello, self.lost = None, True
        try:
            self._send(encode(Start(settings=self._settings)))
        except _NoAnswer:
            return  # how it ended is told to whoever waits for it
        except BaseException:
            self.kill()
            raise

    def _ready(self) -> Hello:
        """Wait for the first words of the process."""
        limits = Limits(self._settings.start_timeout_s, 0, 0)
        try:
            return self._greeted(time.monotonic() + limits.inputs_s)
        except _NoAnswer as silence:
            raise self._end(silence, STARTING, 0, limits) from None
        except BaseException:
            self.kill()
            raise

    def _greeted(self, deadline: float) -> Hello:
        reply = decode_reply(self._read_line(deadline))
        if isinstance(reply, Refused):
            self.close()
            raise SettingsError(reply.message)
        if not isinstance(reply, Hello):
            raise KernelqualError(f"the device process began with {type(reply).__name__}; this is a fault of the tool")
        self.lost = False
        return reply

    def _environment(self) -> dict[str, str]:
        environment = dict(os.environ)
        environment["PYTHONUNBUFFERED"] = "1"
        visible = self._settings.visible_device
        if visible is not None:
            environment["CUDA_VISIBLE_DEVICES"] = environment["HIP_VISIBLE_DEVICES"] = visible
        return environment

    def _send(self, data: bytes) -> None:
        try:
            self._connected().sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            raise _NoAnswer(timed_out=False) from None

    def _read_line(self, deadline: float) -> bytes:
        channel = self._connected()
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            poll = select.poll()  # takes every descriptor, where select() ends at 1023
            poll.register(channel, select.POLLIN)
            # Asked before: what it has said last is there then. What it has started may hold its end of the channel.
            ended = self._process is not None and self._process.poll() is not None
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise _NoAnswer(timed_out=not ended)
            try:
                data = channel.recv(_READ_BYTES)
            except ConnectionResetError:
                data = b""
            if not data:
                raise _NoAnswer(timed_out=False)
            self._received += data
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _answer(self, here: Whereabouts, limits: Limits) -> tuple[bytes, Whereabouts]:
        """Return the next line, and where the process was when it was last looked at: each phase has a limit."""
        while True:
            left_s = here.began_s + limits.of(here.phase) - time.monotonic()
            try:
                return self._read_line(time.monotonic() + min(left_s, _LOOK_S)), here
            except _NoAnswer as silence:
                before, here = here, self._newest(here)
                if not silence.timed_out or (left_s <= 0 and here == before):
                    raise

    def _newest(self, here: Whereabouts) -> Whereabouts:
        """Return where the process is by now; what its board says of earlier requests does not count."""
        told = self._board.read() if self._board is not None else None
        return here if told is None or told.began_s < here.began_s else told

    def _connected(self) -> socket.socket:
        if self._channel is None:
            raise _NoAnswer(timed_out=False)
        return self._channel

    def _end(self, silence: "_NoAnswer", phase: str, launches: int, limits: Limits) -> DeviceProcessError:
        process = self._process
        code: int | None = None
        if process is not None and not silence.timed_out:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(_CLOSE_S)
        self.kill()
        cause = f"no answer within {limits.of(phase):g} s in phase {phase}" if silence.timed_out else _cause(code)
        return DeviceProcessError(cause, phase=phase, launches=launches, timed_out=silence.timed_out, log=self.log())

    def _disconnect(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._leash >= 0:
            os.close(self._leash)
            self._leash = -1
        self._received.clear()


class _NoAnswer(Exception):  # noqa: N818 - internal, becomes a DeviceProcessError
    def __init__(self, *, timed_out: bool) -> None:
        super().__init__()
        self.timed_out = timed_out


def _sys_path() -> list[str]:
    """Return this process's import path with the current folder spelt out, as the child must find the same modules."""
    return [path or os.getcwd() for path in sys.path]  # noqa: PTH109 - as Python itself resolves ""


def _cause(code: int | None) -> str:
    if code is None:
        return "the device process closed its channel and did not end"
    if code >= 0:
        return f"the device process exited with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (not by us: often the system ran out of memory)" if name == "SIGKILL" else ""
    return f"the device process was ended by {name}{hint}"
