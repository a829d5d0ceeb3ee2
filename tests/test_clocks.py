"""What the driver's library tells around samples, of libraries that are not there: planted modules stand in."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from acceptance import run

from pytest_kernelqual.model.clocks import Clocks
from pytest_kernelqual.on_device import clocks
from pytest_kernelqual.on_device.clocks import ClockReader
from pytest_kernelqual.on_device.environment import Device

CUDA = Device("cuda", torch.device("cuda", 0))
HIP = Device("hip", torch.device("cuda", 0))
GONE = 4_194_305
"""A pid that no Linux gives: as those of another namespace, nothing is known of it."""


class Driver:
    """State of a device that both planted libraries tell."""

    def __init__(self) -> None:
        """Be quiet, with this process alone on the device."""
        self.mhz = 1980
        self.reasons = 0
        self.metrics: dict[str, Any] = {
            "ppt_residency_acc": 7,
            "hbm_thm_residency_acc": 0,
            "vr_thm_residency_acc": "N/A",
        }
        self.pids: list[int] = [os.getpid(), GONE]
        self.listed = 0
        self.raises: dict[str, Exception] = {}
        self.now_s = 100.0
        self.listing_s = 0.005

    def answer(self, name: str, value: Any) -> Any:
        """Return a value, or raise what is planted for the function."""
        if name in self.raises:
            raise self.raises[name]
        return value

    def list(self) -> list[int]:
        """Return the pids, as slowly as a driver does."""
        self.listed += 1
        self.now_s += self.listing_s
        return self.pids


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    """Plant both libraries, a clock on the wall, and what torch tells of the device."""
    made = Driver()
    nvml: Any = ModuleType("pynvml")
    nvml.NVML_CLOCK_SM = 1
    nvml.nvmlInit = lambda: made.answer("init", None)
    nvml.nvmlDeviceGetHandleByUUID = {"GPU-1a2b": "handle"}.__getitem__
    nvml.nvmlDeviceGetClockInfo = lambda handle, kind: (
        made.answer("clock", made.mhz) if (handle, kind) == ("handle", 1) else 0
    )
    nvml.nvmlDeviceGetCurrentClocksThrottleReasons = lambda _handle: made.answer("throttling", made.reasons)
    nvml.nvmlDeviceGetComputeRunningProcesses = lambda _handle: made.answer(
        "processes", [SimpleNamespace(pid=pid) for pid in made.list()]
    )
    smi: Any = ModuleType("amdsmi")
    smi.AmdSmiClkType = SimpleNamespace(GFX="gfx")
    smi.amdsmi_get_clock_info = lambda handle, kind: (
        made.answer("clock", {"clk": made.mhz}) if (handle, kind) == ("amd", "gfx") else {}
    )
    smi.amdsmi_get_gpu_metrics_info = lambda _handle: made.answer("throttling", dict(made.metrics))
    smi.amdsmi_get_gpu_process_list = lambda _handle: made.answer("processes", [{"pid": pid} for pid in made.list()])
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setitem(sys.modules, "amdsmi", smi)
    cuda = SimpleNamespace(
        get_device_properties=lambda _device: SimpleNamespace(uuid="1a2b"),
        _get_amdsmi_handler=lambda _device: made.answer("init", "amd"),
    )
    monkeypatch.setattr(clocks, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(clocks, "time", SimpleNamespace(monotonic=lambda: made.now_s))
    return made


BOTH = pytest.mark.parametrize("device", [CUDA, HIP], ids=["cuda", "hip"])


def told(device: Device) -> str:
    """Return what a new reader says of itself."""
    return ClockReader(device).told


def read(reader: ClockReader) -> Clocks:
    """Return a reading, which there must be."""
    found = reader.read()
    assert found is not None
    return found


@BOTH
def test_a_quiet_device(driver: Driver, device: Device) -> None:
    """Its clock, and nothing that disturbs; this process and ones of which nothing is known are nobody else."""
    assert told(device) == "on"
    assert read(ClockReader(device)) == Clocks(sm_mhz=1980)
    driver.mhz = 1700
    assert read(ClockReader(device)).sm_mhz == 1700


@pytest.mark.parametrize(
    ("reasons", "names"),
    [
        (0x1 | 0x2 | 0x100, []),  # idle, clocks set by the application, by the display
        (0x4, ["power cap"]),
        (0x8 | 0x80, ["hardware slowdown", "power brake"]),
        (0x20 | 0x40, ["software thermal", "hardware thermal"]),
    ],
)
def test_reasons_of_nvidia(driver: Driver, reasons: int, names: list[str]) -> None:
    """Those that slow a busy device."""
    driver.reasons = reasons
    assert read(ClockReader(CUDA)).throttled == names


def test_throttling_of_amd_is_what_was_counted_since(driver: Driver) -> None:
    """A counter that stood still, or that the device lacks, tells nothing."""
    reader = ClockReader(HIP)
    assert read(reader).throttled == []
    driver.metrics["ppt_residency_acc"] += 1
    assert read(reader).throttled == ["power cap"]
    assert read(reader).throttled == []
    driver.metrics["hbm_thm_residency_acc"] += 5
    assert read(reader).throttled == ["memory thermal"]


@pytest.fixture
def begin() -> Iterator[Callable[..., int]]:
    """Start processes that do nothing, with more arguments, and end them."""
    started: list[subprocess.Popen[bytes]] = []

    def one(*arguments: str) -> int:
        code = "print(flush=True); import sys; sys.stdin.read()"
        pipe = subprocess.PIPE
        started.append(subprocess.Popen([sys.executable, "-c", code, *arguments], stdin=pipe, stdout=pipe))
        stdout = started[-1].stdout
        assert stdout is not None
        stdout.readline()  # it is what it will be
        return started[-1].pid

    yield one
    for process in started:
        process.communicate()


@BOTH
def test_foreign_processes(driver: Driver, device: Device, begin: Callable[..., int]) -> None:
    """Each counts once; device processes of ours wait for the lock, and are none."""
    driver.pids += [begin("train.py"), begin("from pytest_kernelqual.on_device.main import main")]
    driver.pids.append(driver.pids[-2])
    assert read(ClockReader(device)).foreign_processes == 1


@BOTH
def test_device_processes_of_another_user_are_foreign(
    driver: Driver, device: Device, begin: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait for a lock of their own."""
    driver.pids.append(begin("from pytest_kernelqual.on_device.main import main"))
    assert read(ClockReader(device)).foreign_processes == 0
    monkeypatch.setattr("os.getuid", lambda: 54321)
    assert read(ClockReader(device)).foreign_processes == 1


def test_processes_are_listed_no_oftener_than_is_worth_it(driver: Driver, begin: Callable[..., int]) -> None:
    """At most for a fiftieth of the time; while somebody is there, each time."""
    reader = ClockReader(CUDA)
    driver.listing_s = 0.040
    read(reader)
    listed = driver.listed
    driver.now_s += 1.9
    read(reader)
    assert driver.listed == listed
    driver.now_s += 0.2
    driver.pids.append(begin("train.py"))
    assert read(reader).foreign_processes == 1
    driver.now_s += 0.01
    assert read(reader).foreign_processes == 1
    assert driver.listed == listed + 2
    driver.pids.pop()
    driver.now_s += 0.01
    assert read(reader).foreign_processes == 0


@pytest.mark.parametrize(
    ("device", "module", "install"),
    [(CUDA, "pynvml", "pip install nvidia-ml-py (the extra `nvidia`)"), (HIP, "amdsmi", "AMD SMI")],
    ids=["cuda", "hip"],
)
@pytest.mark.usefixtures("driver")
def test_a_missing_library_is_said(monkeypatch: pytest.MonkeyPatch, device: Device, module: str, install: str) -> None:
    """With what to install; nothing is claimed of the device then."""
    monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [])
    reader = ClockReader(device)
    assert reader.read() is None
    assert reader.told.startswith(f"off: no module {module}; ")
    assert install in reader.told


@BOTH
def test_a_library_that_raises_is_said(driver: Driver, device: Device) -> None:
    """Whatever it raises, in one line."""
    driver.raises["init"] = OSError("no driver\nis loaded")
    reader = ClockReader(device)
    assert reader.read() is None
    assert reader.told == "off: OSError: no driver is loaded"


@BOTH
def test_what_a_driver_does_not_tell_is_left_out(driver: Driver, device: Device) -> None:
    """The rest is looked at all the same."""
    driver.raises["throttling"] = RuntimeError("Not Supported")
    driver.reasons = 0x4
    reader = ClockReader(device)
    assert reader.told == "on, but for throttling: RuntimeError: Not Supported"
    assert read(reader) == Clocks(sm_mhz=1980)
    driver.raises = {part: RuntimeError("no") for part in ("clock", "throttling", "processes")}
    reader = ClockReader(device)
    assert reader.told == "off: clock: RuntimeError: no; throttling: RuntimeError: no; processes: RuntimeError: no"
    assert reader.read() is None


def test_an_amd_driver_that_counts_nothing(driver: Driver) -> None:
    """As the accumulators of many devices."""
    driver.metrics = {"ppt_residency_acc": "N/A"}
    assert told(HIP) == "on, but for throttling: LookupError: the driver counts nothing"


@BOTH
def test_a_library_that_fails_later_is_no_quiet_device(driver: Driver, device: Device) -> None:
    """Samples that it was to vouch for are void, until it tells again."""
    reader = ClockReader(device)
    assert read(reader).problem == ""
    driver.raises["clock"] = RuntimeError("GPU is lost")
    assert read(reader).problem == "RuntimeError: GPU is lost"
    driver.raises.clear()
    assert read(reader) == Clocks(sm_mhz=1980)


@pytest.mark.parametrize("device", [Device("interpreter", torch.device("cpu")), CUDA._replace(target="cuda:90")])
def test_where_nothing_is_timed_nothing_is_asked(driver: Driver, device: Device) -> None:
    """And nothing is said."""
    reader = ClockReader(device)
    assert (reader.read(), reader.told, driver.listed) == (None, "", 0)


SPEC = """
import torch
from pytest_kernelqual import Case, Config, kernel_spec

@kernel_spec(candidates=[Config(by=1)], cases=[Case(n=4)])
def doubled(case, seeded):
    x = seeded.normal((case.n,))
    return lambda config: x * 2
"""


def test_a_run_says_so(tmp_path: Path) -> None:
    """In the summary and in the report; under the interpreter there is nothing to say."""
    (tmp_path / "qual_doubled.py").write_text(SPEC)
    (tmp_path / "pytest.ini").write_text("[pytest]\nkernelqual_paths = .\n")
    (tmp_path / "pynvml.py").write_text("def nvmlInit():\n    raise RuntimeError('planted')\n")
    stand_in = ("-p", "gpu_stand_in", "--kernelqual-provocation=off")
    ended = run(
        tmp_path,
        "-p",
        "no:xdist",
        *stand_in,
        PYTHONPATH=os.pathsep.join([str(tmp_path), str(Path(__file__).parent), *sys.path]),
    )
    assert ended.code == 0
    assert "disturbance checks: off: RuntimeError: planted\n" in ended.text
    environment = ended.document.environment
    assert environment is not None
    assert environment.disturbance_checks == "off: RuntimeError: planted"
    plain = run(tmp_path, "-p", "no:xdist")
    assert "disturbance checks" not in plain.text
