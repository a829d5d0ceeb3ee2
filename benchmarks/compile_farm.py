"""Print how long it takes to compile what a suite launches: the farm, the farm once more, and one process.

    python benchmarks/compile_farm.py [--device cuda] [--target cuda:90 --target hip:gfx942] [--workers N] [FILE ...]

The first and the last pass begin with an empty cache, the second with that of the first.
Times are those of surveying and compiling, without the start of the device process and without importing the files.
On a device (--device cuda) every candidate is launched after the farm, and what Triton compiles meanwhile is counted;
status 1 where it is anything.
"""

import argparse
import os
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from pytest_kernelqual.errors import KernelqualError
from pytest_kernelqual.model.messages import Describe, Described, Open, Opened, SpecInfo, Try
from pytest_kernelqual.model.settings import MIN_REPEATS, Settings
from pytest_kernelqual.processes.compile_farm import CaseName, CompileFarm, Totals
from pytest_kernelqual.processes.device import Limits
from pytest_kernelqual.processes.device_process import DeviceProcess

ROOT = Path(__file__).resolve().parent.parent
LIMITS = Limits(120, 120, 30)


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
        cases = [
            [CaseName(path, spec.name, case.id) for spec in found for case in spec.cases]
            for path, found in specs.items()
        ]
        # As in a run: for a device all together, for targets file by file.
        for together in cases if settings.device.startswith("target:") else [list(chain.from_iterable(cases))]:
            farm.prepare(together, silent)
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


class Launched(NamedTuple):
    """What became of all candidates."""

    launched: int = 0
    no_baseline: int = 0
    """Candidates of cases whose fixed launch did not qualify."""
    too_late: int = 0
    """Candidates that the limit of time cut off."""


def launch_all(settings: Settings, specs: dict[str, list[SpecInfo]], limit_s: float) -> Launched:
    """Launch every candidate of every case, as long as there is time."""
    device = DeviceProcess(settings)
    ends = time.monotonic() + limit_s
    counts: Counter[str] = Counter()
    try:
        for path, found in specs.items():
            for spec in found:
                for case in spec.cases:
                    if time.monotonic() > ends:
                        counts["too_late"] += len(spec.candidates)
                    else:
                        counts += launch_case(device, path, spec, case.id)
    finally:
        device.close()
    return Launched(**counts)


def launch_case(device: DeviceProcess, path: str, spec: SpecInfo, case: str) -> Counter[str]:
    """Launch every candidate of a case; what ends the device process leaves the rest of the case out."""
    todo = len(spec.candidates)
    launched = 0
    try:
        opened = device.ask(Open(path=path, spec=spec.name, case=case, ask_oracle=False), LIMITS)
        assert isinstance(opened, Opened)
        if opened.outcome != "qualified":
            print(f"  {spec.name}[{case}]: {opened.outcome}: {opened.reason}", flush=True)
            return Counter(no_baseline=todo)
        for candidate in spec.candidates:
            device.ask(Try(config=candidate.config), LIMITS)
            launched += 1
    except KernelqualError as error:
        print(f"  {spec.name}[{case}]: {error}", flush=True)
    return Counter(launched=launched, no_baseline=todo - launched)


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


def compare(settings: Settings, files: list[str], folder: Path, launch_s: float) -> bool:
    """Print the passes for one device or target, the one that takes longest last; False where code is compiled anew."""
    print(f"{settings.device}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    cache = folder / "farm"
    os.environ["TRITON_CACHE_DIR"] = str(cache)
    farm = measure(settings, files)
    print(told(f"farm of {settings.compile_workers}", farm), flush=True)
    again = measure(settings, files)
    print(told("once more", again), flush=True)
    print(f"  once more: {farm.took_s / again.took_s:.1f} times as fast as the first time", flush=True)
    recompiled = 0
    if not settings.device.startswith("target:"):
        before = compiled_objects(cache)
        ran = launch_all(structs.replace(settings, compile_workers=0), farm.specs, launch_s)
        recompiled = compiled_objects(cache) - before
        print(
            f"  {ran.launched} candidates launched, {ran.no_baseline} without a baseline, {ran.too_late} cut off: "
            f"{recompiled} code objects compiled anew",
            flush=True,
        )
    os.environ["TRITON_CACHE_DIR"] = str(folder / "one")
    one = measure(structs.replace(settings, compile_workers=1), files)
    print(told("one process", one), flush=True)
    print(f"  farm: {one.took_s / farm.took_s:.2f} times as fast as one process", flush=True)
    return not recompiled


def main() -> int:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="a device of this machine, for example cuda; left out: the targets")
    parser.add_argument("--target", action="append", help="default cuda:90 and hip:gfx942")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--launch-limit", type=float, default=120.0, help="seconds for launches (default 120)")
    parser.add_argument("files", nargs="*", type=Path, help="spec files; default those of the repository")
    given = parser.parse_args()
    files = [str(path.resolve()) for path in given.files or sorted(ROOT.glob("kernels/qual_*.py"))]
    devices = (
        [given.device] if given.device else [f"target:{name}" for name in given.target or ("cuda:90", "hip:gfx942")]
    )
    folder = Path(tempfile.mkdtemp(prefix="kernelqual-farm-"))
    try:
        settings = [
            Settings(
                root_dir=str(ROOT),
                device=device,
                compile_workers=given.workers,
                repeats=MIN_REPEATS,
                provocation=False,  # it compiles nothing, and takes most of the time of a launch
            )
            for device in devices
        ]
        ended = [compare(one, files, folder / str(number), given.launch_limit) for number, one in enumerate(settings)]
        return 0 if all(ended) else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
