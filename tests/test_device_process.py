"""The device process from its owner's side: starting, dying, hanging, refusing."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import pytest
from acceptance import wait_until

from pytest_kernelqual.errors import DeviceProcessError, KernelqualError, SettingsError
from pytest_kernelqual.model.messages import (
    Describe,
    Described,
    EnvironmentRead,
    Open,
    Opened,
    Output,
    ReadEnvironment,
    ReadOutput,
    Reply,
    Tried,
    Try,
)
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.processes.device import Limits
from pytest_kernelqual.processes.device_process import DeviceProcess

LIMITS = Limits(120, 120, 3)
MEGABYTES = 24

SPEC = f"""
import os, time, sys, signal, subprocess
import torch
from pytest_kernelqual import Case, Config, kernel_spec

def run(x, config):
    fault = config["FAULT"] if config else "none"
    if fault == "abort":
        print("last words", flush=True)
        os.abort()
    if fault == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == "exit":
        sys.exit(3)
    if fault == "hang":
        time.sleep(600)
    if fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if fault == "child":
        print("child", subprocess.Popen(["sleep", "600"]).pid, flush=True)
        time.sleep(600)
    if fault == "orphan":
        if os.fork():
            os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(600)
    if fault == "twice":
        os.fork()
    if fault == "loud":
        os.write(1, b"x" * 100_000 + b"end")
    if fault == "breakpoint":
        breakpoint()
    return x + 1

FAULTS = ("none", "abort", "segv", "exit", "hang", "stop", "child", "orphan", "twice", "loud", "breakpoint")

@kernel_spec(candidates=[Config(FAULT=name) for name in FAULTS], cases=[Case(n=4), Case(n={MEGABYTES << 18})])
def planted(case, seeded):
    x = seeded.full((case.n,), 1.0, name="x")
    return lambda config: run(x, config)
"""


class Owner(NamedTuple):
    """A device process and the spec file that it runs."""

    device: DeviceProcess
    path: str

    def open(self, case: str = "n4") -> Opened:
        """Open a case of the spec."""
        reply = self.device.ask(Open(path=self.path, spec="planted", case=case), LIMITS)
        assert isinstance(reply, Opened)
        return reply

    def attempt(self, fault: str, limits: Limits = LIMITS) -> Reply:
        """Open the case and try one fault."""
        assert self.open().outcome == "qualified"
        return self.device.ask(Try(config={"FAULT": fault}), limits)

    @property
    def pid(self) -> int:
        """Return the id of the running process."""
        process = self.device._process
        assert process is not None
        return process.pid


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    """Return a device process for all tests of this file; each may kill it."""
    folder = tmp_path_factory.mktemp("specs")
    path = folder / "qual_planted.py"
    path.write_text(SPEC)
    device = DeviceProcess(Settings(root_dir=str(folder), device="interpreter"))
    yield Owner(device, str(path))
    device.close()


def test_answers_in_order(owner: Owner) -> None:
    """One warm process describes, opens and tries."""
    assert owner.device.hello().kind == "interpreter"
    described = owner.device.ask(Describe(path=owner.path), LIMITS)
    assert isinstance(described, Described)
    assert [spec.name for spec in described.specs] == ["planted"]
    first = owner.pid
    tried = owner.attempt("none")
    assert isinstance(tried, Tried)
    assert (tried.outcome, tried.evidence) == ("qualified", "interpreted")
    assert owner.pid == first


def test_a_child_that_a_launch_forks_answers_nothing(owner: Owner) -> None:
    """It returns from the launch as well, and what it would say were the answer to a later request."""
    tried = owner.attempt("twice")
    assert isinstance(tried, Tried)
    assert tried.outcome == "qualified"
    for _ in range(3):
        assert isinstance(owner.device.ask(Describe(path=owner.path), LIMITS), Described)


def test_what_was_qualified_need_not_run_to_be_timed(owner: Owner) -> None:
    """Unless it was another process that qualified it."""
    for_timing = Open(path=owner.path, spec="planted", case="n4", for_timing=True)
    owner.device.close()
    assert owner.device.ask(for_timing, LIMITS) == Opened(outcome="qualified", launches=1)
    assert owner.open().launches > 1
    assert owner.device.ask(for_timing, LIMITS) == Opened(outcome="qualified", launches=0)


def test_environment_names_versions(owner: Owner) -> None:
    """Provenance comes from the process that runs kernels."""
    reply = owner.device.ask(ReadEnvironment(), LIMITS)
    assert isinstance(reply, EnvironmentRead)
    assert reply.environment.device.kind == "interpreter"
    assert reply.environment.torch
    assert reply.environment.triton


def test_long_answers_arrive_whole(owner: Owner) -> None:
    """Output bytes of many megabytes come in one reply."""
    assert owner.open(f"n{MEGABYTES << 18}").outcome == "qualified"
    reply = owner.device.ask(ReadOutput(), LIMITS)
    assert isinstance(reply, Output)
    assert len(reply.outputs[0].data) == MEGABYTES << 20
    assert reply.outputs[0].data == b"\x00\x00\x00\x40" * (MEGABYTES << 18)


@pytest.mark.parametrize(
    ("fault", "cause"), [("abort", "SIGABRT"), ("segv", "SIGSEGV"), ("exit", "status 3"), ("orphan", "SIGSEGV")]
)
def test_death_is_named_and_survived(owner: Owner, fault: str, cause: str) -> None:
    """A signal is told by name, the log holds the last words, and the next request gets a new process."""
    with pytest.raises(DeviceProcessError, match=cause) as caught:
        owner.attempt(fault)
    assert caught.value.phase == "run"
    assert not caught.value.timed_out
    if fault == "abort":
        assert caught.value.log.startswith("last words")
        assert "in run" in caught.value.log
        assert "main.py" in caught.value.log
    assert owner.open().outcome == "qualified"


@pytest.mark.parametrize("fault", ["hang", "stop"])
def test_hang_is_ended_after_its_limit(owner: Owner, fault: str) -> None:
    """A launch that never returns, and a process that cannot even run, are both ended."""
    with pytest.raises(DeviceProcessError, match=r"no answer within 0\.5 s in phase run") as caught:
        owner.attempt(fault, Limits(120, 120, 0.5))
    assert caught.value.timed_out
    assert owner.open().outcome == "qualified"


def test_children_of_a_hanging_launch_are_ended_too(owner: Owner) -> None:
    """A compiler that a launch started does not survive its device process."""
    with pytest.raises(DeviceProcessError) as caught:
        owner.attempt("child", Limits(120, 120, 2))
    child = int(caught.value.log.split()[-1])
    wait_until(lambda: not _alive(child), "the child of the device process is left")


def test_log_is_read_once_and_only_its_end(owner: Owner) -> None:
    """What was written since the last reading, at most 16 KiB; reading disturbs no later writing."""
    owner.device.log()
    owner.attempt("loud")
    told = owner.device.log()
    assert len(told) == 16_384
    assert told.endswith("xxxend")
    assert owner.device.log() == ""
    owner.attempt("breakpoint")
    assert (
        owner.device.log().splitlines()
        == ["breakpoint() ignored in the device process; use --kernelqual-in-process"] * 2
    )


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Open(path="", spec="planted", case="n5"), "no case 'n5'; cases: n4"),
        (Open(path="", spec="plante", case="n4"), "no spec 'plante'; specs: planted"),
    ],
)
def test_refusal_keeps_the_process(owner: Owner, request_: Open, message: str) -> None:
    """A wrong request is refused in words, and the process goes on."""
    owner.open()
    first = owner.pid
    with pytest.raises(KernelqualError, match=message):
        owner.device.ask(Open(path=owner.path, spec=request_.spec, case=request_.case), LIMITS)
    assert owner.open().outcome == "qualified"
    assert owner.pid == first


def test_missing_device_is_refused(tmp_path: Path) -> None:
    """A GPU that is not there is an error, not a fallback."""
    process = DeviceProcess(Settings(root_dir=str(tmp_path), device="hip"))
    with pytest.raises(SettingsError, match="'hip' was asked for"):
        process.hello()
    process.close()


def test_process_that_cannot_be_started_is_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system says about it reaches the user in one line."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing-python"))
    process = DeviceProcess(Settings(root_dir=str(tmp_path)))
    with pytest.raises(DeviceProcessError, match=r"cannot be started: .*missing-python"):
        process.hello()
    process.close()


@pytest.mark.parametrize("forbidden", [False, True])
def test_without_files_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, forbidden: bool) -> None:
    """Builds of Python for old systems have no call for them, and sandboxes forbid it: a file on a disk does."""

    def refuse(_name: str) -> int:
        raise PermissionError

    if forbidden:
        monkeypatch.setattr(os, "memfd_create", refuse, raising=False)
    else:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    process = DeviceProcess(Settings(root_dir=str(tmp_path), device="interpreter"))
    assert process.hello().kind == "interpreter"
    process.close()


def test_no_room_for_what_the_process_is_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is an error of ours, where there are no files in memory."""

    def full(**_options: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    process = DeviceProcess(Settings(root_dir=str(tmp_path), device="interpreter"))
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(DeviceProcessError, match=r"cannot be started: .*No space left"):
        process.hello()
    process.close()


def test_visible_device_is_given_to_the_process(tmp_path: Path) -> None:
    """A worker's device process sees the device that the worker was given, and no other."""
    settings = Settings(root_dir=str(tmp_path), visible_device="GPU-1")
    told = DeviceProcess(settings)._environment()
    assert (told["CUDA_VISIBLE_DEVICES"], told["HIP_VISIBLE_DEVICES"]) == ("GPU-1", "GPU-1")


def test_dies_with_its_owner(tmp_path: Path) -> None:
    """When the owner is killed, a device process that never returns from a launch ends too."""
    path = tmp_path / "qual_planted.py"
    path.write_text(SPEC)
    script = tmp_path / "owner.py"
    script.write_text(
        textwrap.dedent(f"""
        from pytest_kernelqual.model.messages import Open, Try
        from pytest_kernelqual.model.settings import Settings
        from pytest_kernelqual.processes.device import Limits
        from pytest_kernelqual.processes.device_process import DeviceProcess
        process = DeviceProcess(Settings(root_dir={str(tmp_path)!r}, device="interpreter"))
        limits = Limits(600, 600, 600)
        process.ask(Open(path={str(path)!r}, spec="planted", case="n4"), limits)
        print(process._process.pid, flush=True)
        process.ask(Try(config={{"FAULT": "hang"}}), limits)
        """)
    )
    running = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert running.stdout is not None
    child = int(running.stdout.readline())
    assert _alive(child)
    running.kill()
    running.wait()
    wait_until(lambda: not _alive(child), "the device process outlived its owner")


def test_interrupt_leaves_no_process(owner: Owner) -> None:
    """Ctrl-C while a launch runs ends the process, so that its late answer meets no later request."""
    owner.open()
    pid = owner.pid

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            owner.device.ask(Try(config={"FAULT": "hang"}), Limits(60, 60, 60))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
