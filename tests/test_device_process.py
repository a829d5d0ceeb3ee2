"""The device process from its owner's side: starting, dying, hanging, refusing."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from pytest_kernelqual.errors import DeviceProcessError, KernelqualError, SettingsError
from pytest_kernelqual.model.messages import Describe, Described, EnvironmentRead, Open, Opened, ReadEnvironment, Tried, Try
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.processes.device import Limits
from pytest_kernelqual.processes.device_process import DeviceProcess

LIMITS = Limits(120, 120, 3)

SPEC = """
import os, time, sys, signal
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
    return x + 1

@kernel_spec(candidates=[Config(FAULT=f) for f in ("none", "abort", "segv", "exit", "hang", "stop")], cases=[Case(n=4)])
def planted(case, seeded):
    x = seeded.full((case.n,), 1.0, name="x")
    return lambda config: run(x, config)
"""


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("specs")
    path = folder / "qual_planted.py"
    path.write_text(SPEC)
    process = DeviceProcess(Settings(root_dir=str(folder), device="interpreter"))
    process.path = str(path)
    yield process
    process.close()


def opened(device: DeviceProcess) -> Opened:
    reply = device.ask(Open(path=device.path, spec="planted", case="n4"), LIMITS)
    assert isinstance(reply, Opened)
    return reply


def test_answers_in_order(device):
    """One warm process describes, opens and tries."""
    assert device.hello().kind == "interpreter"
    described = device.ask(Describe(path=device.path), LIMITS)
    assert isinstance(described, Described)
    assert [spec.name for spec in described.specs] == ["planted"]
    assert opened(device).outcome == "qualified"
    tried = device.ask(Try(config={"FAULT": "none"}), LIMITS)
    assert isinstance(tried, Tried)
    assert (tried.outcome, tried.evidence) == ("qualified", "interpreted")


def test_environment_names_versions(device):
    """Provenance comes from the process that runs kernels."""
    reply = device.ask(ReadEnvironment(), LIMITS)
    assert isinstance(reply, EnvironmentRead)
    assert reply.environment.device.kind == "interpreter"
    assert reply.environment.torch
    assert reply.environment.triton


@pytest.mark.parametrize(("fault", "cause"), [("abort", "SIGABRT"), ("segv", "SIGSEGV")])
def test_death_is_named_and_survived(device, fault, cause):
    """A signal is told by name, the log holds the last words, and the next request gets a new process."""
    opened(device)
    with pytest.raises(DeviceProcessError, match=cause) as caught:
        device.ask(Try(config={"FAULT": fault}), LIMITS)
    assert caught.value.phase == "run"
    assert not caught.value.timed_out
    if fault == "abort":
        assert "last words" in caught.value.log
    assert opened(device).outcome == "qualified"


@pytest.mark.parametrize("fault", ["hang", "stop"])
def test_hang_is_ended_after_its_limit(device, fault):
    """A launch that never returns, and a process that cannot even run, are both ended."""
    opened(device)
    with pytest.raises(DeviceProcessError, match="no answer within 3 s in phase run") as caught:
        device.ask(Try(config={"FAULT": fault}), LIMITS)
    assert caught.value.timed_out
    assert opened(device).outcome == "qualified"


def test_exit_is_a_death(device):
    """A launch that leaves the interpreter is no answer."""
    opened(device)
    with pytest.raises(DeviceProcessError, match="status 3"):
        device.ask(Try(config={"FAULT": "exit"}), LIMITS)


def test_refusal_keeps_the_process(device):
    """A wrong request is refused in words, and the process goes on."""
    opened(device)
    with pytest.raises(KernelqualError, match="no case 'n5'; cases: n4"):
        device.ask(Open(path=device.path, spec="planted", case="n5"), LIMITS)
    with pytest.raises(KernelqualError, match="no spec 'plante'; specs: planted"):
        device.ask(Open(path=device.path, spec="plante", case="n4"), LIMITS)
    assert opened(device).outcome == "qualified"


def test_missing_device_is_refused(tmp_path):
    """A GPU that is not there is an error, not a fallback."""
    process = DeviceProcess(Settings(root_dir=str(tmp_path), device="hip"))
    with pytest.raises(SettingsError, match="'hip' was asked for"):
        process.hello()
    process.close()


def test_dies_with_its_owner(tmp_path):
    """When the owner is killed, a device process that never returns from a launch ends too."""
    path = tmp_path / "qual_planted.py"
    path.write_text(SPEC)
    owner = tmp_path / "owner.py"
    owner.write_text(
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
    running = subprocess.Popen([sys.executable, str(owner)], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert running.stdout is not None
    child = int(running.stdout.readline())
    assert _alive(child)
    running.kill()
    running.wait()
    deadline = time.monotonic() + 60
    while _alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(child)


def test_interrupt_leaves_no_process(device):
    """Ctrl-C while a launch runs ends the process, so that its late answer meets no later request."""
    opened(device)
    pid = device._process.pid
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    with pytest.raises(KeyboardInterrupt):
        device.ask(Try(config={"FAULT": "hang"}), Limits(60, 60, 60))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
