"""Print how long it takes to compile what a suite launches: one process, the farm, and the farm once more.

    python benchmarks/compile_farm.py [--device cuda] [--target cuda:90 --target hip:gfx942] [--workers N] [FILE ...]

Each of the first two begins with an empty cache, the third with that of the second.
Times are those of surveying and compiling, without the start of the device process and without importing the files.
On a device (--device cuda) every candidate is launched afterwards, and what Triton compiles meanwhile is counted.
"""

import argparse
import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from pytest_kernelqual.errors import KernelqualError
from pytest_kernelqual.model.messages import Describe, Described, Open, Opened, SpecInfo, Try
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.processes.compile_farm import CaseName, CompileFarm, Totals
from pytest_kernelqual.processes.device import Limits
from pytest_kernelqual.processes.device_process import DeviceProcess

ROOT = Path(__file__).resolve().parent.parent
LIMITS = Limits(600, 600, 600)


class Measured(NamedTuple):
    """One pass over all files."""

    took_s: float
    cpu_s: float
    """Processor time of the device process and of all that it started, its start included."""
    totals: Totals
    specs: dict[str, list[SpecInfo]]


def measure(settings: Settings, files: list[str]) -> Measured:
    """Survey and compile all cases of all files in one device process."""
    device = DeviceProcess(settings)
    farm = CompileFarm(device, settings)
    try:
        device.hello()
        specs = {path: describe(device, path) for path in files}
        began, began_cpu_s = time.monotonic(), children_cpu_s()
        for path, found in specs.items():
            farm.prepare([CaseName(path, spec.name, case.id) for spec in found for case in spec.cases], silent)
        took_s = time.monotonic() - began
        device.close()
        return Measured(took_s, children_cpu_s() - began_cpu_s, farm.totals, specs)
    finally:
        device.close()


def children_cpu_s() -> float:
    """Return the processor time of child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def describe(device: DeviceProcess, path: str) -> list[SpecInfo]:
    """Return the specs of a file."""
    described = device.ask(Describe(path=path), LIMITS)
    assert isinstance(described, Described)
    if described.problem:
        print(f"  {path}: {described.problem.splitlines()[0]}")
    return [spec for spec in described.specs if not spec.problem]


def silent(_done: int, _total: int) -> None:
    """Show no progress."""


def launch_all(settings: Settings, specs: dict[str, list[SpecInfo]]) -> tuple[int, int]:
    """Launch every candidate of every case; return how many there were, and how many could not be launched."""
    device = DeviceProcess(settings)
    launched = failed = 0
    try:
        for path, found in specs.items():
            for spec in found:
                for case in spec.cases:
                    try:
                        opened = device.ask(Open(path=path, spec=spec.name, case=case.id), LIMITS)
                    except KernelqualError as error:
                        opened = None
                        print(f"  {spec.name}[{case.id}]: {error}")
                    if not isinstance(opened, Opened) or opened.outcome != "qualified":
                        failed += len(spec.candidates)
                        continue
                    for candidate in spec.candidates:
                        launched += 1
                        try:
                            device.ask(Try(config=candidate.config), LIMITS)
                        except KernelqualError as error:  # the rest of the case is left out
                            print(f"  {spec.name}[{case.id}] {candidate.id}: {error}")
                            break
    finally:
        device.close()
    return launched, failed


def compiled_objects(cache: Path) -> int:
    """Count the code objects in a cache of Triton's."""
    return sum(1 for _ in cache.glob("*/__grp__*.json"))


def told(name: str, measured: Measured) -> str:
    """Return a line about one pass."""
    totals = measured.totals
    took = f"{measured.took_s:8.1f} s ({measured.cpu_s:.1f} s of processor time)"
    return (
        f"  {name:<22}{took}   {totals.launches} launches, {totals.compiled} compiled, "
        f"{totals.cached} cached, {totals.failed} failed, {totals.not_surveyed} not surveyed"
    )


def compare(settings: Settings, files: list[str], folder: Path) -> None:
    """Print the three passes for one device or target."""
    print(f"{settings.device}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    os.environ["TRITON_CACHE_DIR"] = str(folder / "one")
    one = measure(structs.replace(settings, compile_workers=1), files)
    print(told("one process", one), flush=True)
    cache = folder / "farm"
    os.environ["TRITON_CACHE_DIR"] = str(cache)
    farm = measure(settings, files)
    print(told(f"farm of {settings.compile_workers}", farm), flush=True)
    again = measure(settings, files)
    print(told("once more", again), flush=True)
    print(f"  farm: {one.took_s / farm.took_s:.2f} times as fast as one process")
    print(f"  once more: {farm.took_s / again.took_s:.1f} times as fast as the first time")
    if not settings.device.startswith("target:"):
        before = compiled_objects(cache)
        launched, failed = launch_all(structs.replace(settings, compile_workers=0), farm.specs)
        recompiled = compiled_objects(cache) - before
        print(
            f"  {launched} candidates launched ({failed} without a baseline): {recompiled} code objects compiled anew"
        )


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="a device of this machine, for example cuda; left out: the targets")
    parser.add_argument("--target", action="append", help="default cuda:90 and hip:gfx942")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("files", nargs="*", type=Path, help="spec files; default those of the repository")
    given = parser.parse_args()
    files = [str(path.resolve()) for path in given.files or sorted(ROOT.glob("kernels/qual_*.py"))]
    devices = (
        [given.device] if given.device else [f"target:{name}" for name in given.target or ("cuda:90", "hip:gfx942")]
    )
    folder = Path(tempfile.mkdtemp(prefix="kernelqual-farm-"))
    try:
        for number, device in enumerate(devices):
            settings = Settings(root_dir=str(ROOT), device=device, compile_workers=given.workers)
            compare(settings, files, folder / str(number))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
