"""A forked process that compiles one job after another; it may hang, abort or eat memory, and only one job is lost."""

import contextlib
import gc
import json
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import msgspec
from triton.runtime.driver import driver
from triton.runtime.errors import OutOfResources

from pytest_kernelqual.errors import DryRunError
from pytest_kernelqual.launch import Specialisation, classify
from pytest_kernelqual.launch.compiler_words import first_error, stable
from pytest_kernelqual.launch.fake_driver import FakeDriver
from pytest_kernelqual.launch.resources import ptxas_heard
from pytest_kernelqual.launch.targets import must_fit
from pytest_kernelqual.model.outcome import Outcome
from pytest_kernelqual.model.targets import Target
from pytest_kernelqual.model.values import encodable
from pytest_kernelqual.on_device.code_facts import CodeFacts, read_facts
from pytest_kernelqual.on_device.order import order_of

_LOG_BYTES = 16_384
_SEARCHED_BYTES = 4 << 20
_LONGEST_REASON = 300
_GIB = 1 << 30
# Below this share of one core a compiler is not busy: it waits for what the fork has cut it off from, say.
_BUSY = 0.05
_FIRST_LOOK_S = 10.0
_OUT_OF_MEMORY = re.compile(r"out of memory|bad_alloc|MemoryError|memory allocation fail", re.IGNORECASE)
# As what Triton raises the errors of its passes, of LLVM and of linkers, which write the cause where it does not look.
_OF_COMPILERS = "RuntimeError: "


class Job(NamedTuple):
    """One code object to compile."""

    specialisation: Specialisation
    limit_s: float
    target: Target | None = None
    """Where it is compiled for a target: what it takes is read, and held against the target's limits."""
    ordered: bool = False
    """Its arithmetic order is read, to be kept beside it; without a target, it is compiled already."""
    launcher: Callable[[Any, Any], Any] | None = None
    """Makes, of source and metadata, what calls the code, which is compiled already.

    Some versions of Triton compile C for each signature.
    """

    @property
    def key(self) -> str:
        """Return what tells jobs apart."""
        if self.launcher is not None:
            return f"{self.specialisation.key}-launcher"
        return f"{self.specialisation.key}{'-order' if self.ordered and self.target is None else ''}"


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a compilation ended."""

    outcome: Outcome | None = None
    """None where it can be launched, or where nothing is known, so that the launch has to tell."""
    reason: str = ""
    detail: dict[str, Any] = msgspec.field(default_factory=dict)
    compiled: bool = False
    facts: CodeFacts | None = None
    """What is known of the code; only for targets."""
    duration_s: float = 0.0


class CompileWorker:
    """The parent's side: hand out jobs by their number, and watch."""

    def __init__(self, jobs: Sequence[Job], memory_bytes: int) -> None:
        """Fork; the child knows all jobs from here on."""
        self._memory_bytes = memory_bytes
        self._limit_s = 0.0
        self._began = 0.0
        self._began_cpu_s = 0.0
        self._look_s = 0.0
        self._received = b""
        self.job: int | None = None
        # Unnamed and in append mode, so that the parent reads while the child and its compilers write.
        self._log = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed with the worker
        orders_read, self._orders = os.pipe()
        self.results, results_write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: the child needs none of them
            self.pid = os.fork()
        if self.pid == 0:
            _work(jobs, orders_read, results_write, self._log.fileno(), memory_bytes)
        os.close(orders_read)
        os.close(results_write)

    def give(self, number: int, limit_s: float) -> None:
        """Have a job compiled."""
        self.job, self._limit_s = number, limit_s
        self._began, self._began_cpu_s = time.monotonic(), _cpu_s([self.pid])  # idle, it has no children
        self._look_s = _FIRST_LOOK_S
        self._log.truncate(0)
        with contextlib.suppress(BrokenPipeError):  # then its end is seen at the other pipe
            os.write(self._orders, b"%d\n" % number)

    @property
    def left_s(self) -> float:
        """Return how long the job may still take."""
        return self._began + self._limit_s - time.monotonic()

    def take(self) -> Ending | None:
        """Return how the job ended once `results` can be read; None where more is to come. Ends with the worker."""
        data = os.read(self.results, 1 << 16)
        self._received += data
        if data and not self._received.endswith(b"\n"):
            return None
        if data:
            ending = msgspec.json.decode(self._received, type=Ending)
            self._received, self.job = b"", None
            return self._explained(ending)
        return self._ended(os.waitpid(self.pid, 0)[1])

    def give_up(self) -> Ending | None:
        """End a worker whose job takes too long or does nothing, and return how the job ended; else None."""
        took_s = time.monotonic() - self._began
        late = took_s >= self._limit_s
        if not late and took_s < self._look_s:
            return None
        self._look_s = 2 * took_s
        busy = _cpu_s(self._family()) - self._began_cpu_s >= _BUSY * took_s
        if busy and not late:
            return None
        self.kill()
        if not busy:
            return self._closed(Ending(reason="the compiler waited for something, and did nothing"))
        reason = f"no answer within {self._limit_s:g} s in phase compile"
        return self._closed(self._logged(Ending(outcome="timeout", reason=reason)))

    def kill(self) -> None:
        """End the worker and the compilers that it started, at once."""
        for pid in self._family():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def close(self) -> None:
        """Let an idle worker go."""
        self.kill()
        self._closed(Ending())

    def _ended(self, status: int) -> Ending:
        code = os.waitstatus_to_exitcode(status)
        if _OUT_OF_MEMORY.search(self._tail()):
            ending = _memory_ending(self._memory_bytes)
        elif code == -signal.SIGKILL:  # not by us: often the system ran out of memory, which says nothing of the kernel
            return self._closed(Ending(reason="the compiler was killed by the system"))
        else:
            how = f"exited with status {code}" if code >= 0 else f"was ended by {_signal_name(-code)}"
            told = self._first_error()
            if code >= 0 and not told:  # compilers exit after errors that they tell
                return self._closed(Ending(reason=f"the compiler {how}"))
            reason = f"the compiler {how}: {told}" if told else f"the compiler {how}"
            ending = Ending(outcome="compile_error", reason=reason[:_LONGEST_REASON])
        return self._closed(self._logged(ending))

    def _explained(self, ending: Ending) -> Ending:
        """Add what the compiler wrote to an error that names the step that failed only."""
        if ending.outcome != "compile_error" or not ending.reason.startswith(_OF_COMPILERS):
            return ending
        told = self._first_error()
        reason = f"{ending.reason}: {told}" if told else ending.reason
        return self._logged(msgspec.structs.replace(ending, reason=reason[:_LONGEST_REASON]))

    def _first_error(self) -> str:
        return encodable(first_error(os.pread(self._log.fileno(), _SEARCHED_BYTES, 0).decode(errors="replace")))

    def _logged(self, ending: Ending) -> Ending:
        log = encodable(stable(self._tail()))
        return msgspec.structs.replace(ending, detail={**ending.detail, "log": log}) if log else ending

    def _tail(self) -> str:
        descriptor = self._log.fileno()
        begin = max(os.fstat(descriptor).st_size - _LOG_BYTES, 0)
        return os.pread(descriptor, _LOG_BYTES, begin).decode(errors="replace").strip()

    def _closed(self, ending: Ending) -> Ending:
        os.close(self._orders)
        os.close(self.results)
        self._log.close()
        return msgspec.structs.replace(ending, duration_s=time.monotonic() - self._began)

    def _family(self) -> list[int]:
        """Return the worker and all that it has started."""
        parents = dict(_parents())
        family = [self.pid]
        for pid in family:  # grows
            family += [child for child, parent in parents.items() if parent == pid]
        return family


def _work(jobs: Sequence[Job], orders: int, results: int, log: int, memory_bytes: int) -> NoReturn:
    """Compile what the parent names until it goes away; never returns."""
    gc.freeze()  # what belongs to the parent, such as a device's events, must not be finalised here
    try:
        os.dup2(log, 1)
        os.dup2(log, 2)
        _close_all_but(orders, results)
        with open(orders, "rb", buffering=0) as lines:
            for line in lines:
                os.write(results, msgspec.json.encode(_compile(jobs[int(line)], memory_bytes)) + b"\n")
        os._exit(0)  # no teardown: all that would be torn down is the parent's
    except BaseException:  # noqa: BLE001 - it may not return into the parent's code
        traceback.print_exc()
    finally:
        os._exit(1)


def _compile(job: Job, memory_bytes: int) -> Ending:
    began = time.monotonic()
    _limit_memory(memory_bytes)
    # The real one belongs to the parent, and asking it would touch the device.
    driver.set_active(FakeDriver(job.specialisation.target))
    try:
        with ptxas_heard() as log:
            compiled = job.specialisation.compile()
        if job.target is not None:
            facts = read_facts(job.specialisation.key, compiled, ordered=job.ordered, log="".join(log))
            ending = fitted(job.target, facts)
        else:
            ending = Ending(compiled=True)
            if job.ordered:
                order_of(compiled)
            if job.launcher is not None:
                job.launcher(compiled.src, compiled.metadata)
    except Exception as error:  # noqa: BLE001 - whatever a compiler raises
        ending = _failed(error, memory_bytes)
    return msgspec.structs.replace(ending, duration_s=time.monotonic() - began)


def fitted(target: Target, facts: CodeFacts) -> Ending:
    """Return whether compiled code can be launched on a target."""
    try:
        must_fit(target, facts.resources)
    except OutOfResources as error:
        return msgspec.structs.replace(_failed(error, 0), compiled=True, facts=facts)
    return Ending(compiled=True, facts=facts)


def _failed(error: Exception, memory_bytes: int) -> Ending:
    chain = list(_causes(error))
    if any(isinstance(one, MemoryError) for one in chain):
        return _memory_ending(memory_bytes)
    # A full disk under Triton's cache, say, which is no fault of the kernel.
    of_system = next((one for one in chain if isinstance(one, OSError)), None)
    if of_system is not None:
        return Ending(reason=f"{type(of_system).__name__} while compiling: {of_system.strerror or of_system}")
    # What asks for the device while it compiles, which only the launch can answer.
    if any(isinstance(one, DryRunError) or "forked subprocess" in str(one) for one in chain):
        return Ending(reason="compiling asks for the device")
    told = classify(error, "compile")
    if told is None or told[0] not in ("compile_error", "out_of_resources", "unsupported"):
        return Ending(reason=f"{type(error).__name__} while compiling")
    outcome, reason, detail = told
    return Ending(outcome=outcome, reason=encodable(reason), detail=json.loads(json.dumps(detail)))


def _causes(error: BaseException) -> Iterator[BaseException]:
    one: BaseException | None = error
    while one is not None:
        yield one
        one = one.__cause__ or one.__context__


def _memory_ending(memory_bytes: int) -> Ending:
    reason = f"the compiler needed more than {memory_bytes / _GIB:g} GiB of memory"
    return Ending(outcome="compile_error", reason=reason)


def _limit_memory(memory_bytes: int) -> None:
    """Limit what this process and the compilers that it starts may take beyond what it has by now."""
    has = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    for kind, name in ((resource.RLIMIT_DATA, "VmData"), (resource.RLIMIT_AS, "VmSize")):
        # A limit of the machine's own may be lower, and not every kernel tells everything.
        with contextlib.suppress(KeyError, ValueError, OSError):
            now_bytes = int(has[name].split()[0]) * 1024
            resource.setrlimit(kind, (now_bytes + memory_bytes, resource.getrlimit(kind)[1]))


def _close_all_but(*kept: int) -> None:
    """Close what the parent had open: the far end of its channel must close with the parent."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - numbers
        if int(name) > 2 and int(name) not in kept:  # noqa: PLR2004 - the standard streams
            with contextlib.suppress(OSError):
                os.close(int(name))


def _parents() -> Iterator[tuple[int, int]]:
    """Yield every process of the machine with its parent."""
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            stat = _stat(int(process.name))
            if stat:
                yield int(process.name), int(stat[1])


def _cpu_s(pids: Sequence[int]) -> float:
    """Return the processor time of processes and of their children that have ended."""
    return sum(sum(map(int, stat[11:15])) for pid in pids if (stat := _stat(pid))) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """Return what the kernel tells of a process, from its state on; empty when it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
