"""Compare what is told of a compile target with what a device of that kind says at launch, config by config.

    python benchmarks/limits_truth.py [--device cuda] [--target cuda:90]

Without --device only the first is printed.
Ends with status 1 where the two disagree on any config: whether it can be launched, and with which figures it cannot.
"""

import argparse
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

from pytest_kernelqual.errors import DeviceProcessError, KernelqualError
from pytest_kernelqual.model.config import Scalar
from pytest_kernelqual.model.messages import Describe, Described, Open, Opened, SpecInfo, Tried, Try
from pytest_kernelqual.model.settings import MIN_REPEATS, Settings
from pytest_kernelqual.processes.compile_farm import CaseName, CompileFarm
from pytest_kernelqual.processes.device import Limits
from pytest_kernelqual.processes.device_process import DeviceProcess

FILE = Path(__file__).resolve().parent / "limits" / "qual_limits.py"
LIMITS = Limits(120, 60, 30)
# Of a launch that was not made; anything else was launched, whatever became of it.
REFUSED = ("out_of_resources", "compile_error", "timeout", "launch_error", "not_run", "unsupported")

Told = dict[tuple[str, str, str], tuple[str, str]]


def predicted(specs: list[SpecInfo], device: DeviceProcess, settings: Settings) -> Told:
    """Return outcome and reason of each candidate on the target."""
    farm = CompileFarm(device, settings)
    names = [CaseName(str(FILE), spec.name, case.id) for spec in specs for case in spec.cases]
    farm.prepare(names, lambda _done, _of: None)
    return {
        (name.spec, name.case, launch.id): (launch.outcome, launch.reason)
        for name in names
        for launch in farm.launched(name)
        if launch.id != "fixed"
    }


def launched(specs: list[SpecInfo], device: DeviceProcess) -> Told:
    """Return outcome and reason of each candidate on the device; `fits` for what was launched."""
    found: Told = {}
    for spec in specs:
        for case in spec.cases:
            ready = opened(device, spec, case.id)
            for candidate in spec.candidates:
                told = really(device, candidate.config) if ready else ("not_run", "there is no baseline")
                found[spec.name, case.id, candidate.id] = told if told[0] in REFUSED else ("fits", "")
                if ready and told[0] in ("fault", "timeout", "not_run"):  # the case went with it
                    ready = opened(device, spec, case.id)
    return found


def opened(device: DeviceProcess, spec: SpecInfo, case: str) -> bool:
    """Open a case, and tell whether its fixed launch was launched well."""
    try:
        reply = device.ask(Open(path=str(FILE), spec=spec.name, case=case, ask_oracle=False), LIMITS)
    except KernelqualError as error:
        print(f"  {spec.name}[{case}]: {error}", flush=True)
        return False
    assert isinstance(reply, Opened)
    if reply.outcome != "qualified":
        print(f"  {spec.name}[{case}]: the fixed launch is {reply.outcome}: {reply.reason}", flush=True)
    return reply.outcome == "qualified"


def really(device: DeviceProcess, config: dict[str, Scalar]) -> tuple[str, str]:
    """Return outcome and reason of a candidate of the open case."""
    try:
        tried = device.ask(Try(config=config), LIMITS)
    except DeviceProcessError as death:
        return ("timeout" if death.timed_out else "fault"), str(death)
    except KernelqualError as error:
        return "not_run", str(error)
    assert isinstance(tried, Tried)
    return tried.outcome, tried.reason


def described(device: DeviceProcess) -> list[SpecInfo]:
    """Return the specs of the file."""
    reply = device.ask(Describe(path=str(FILE)), LIMITS)
    assert isinstance(reply, Described)
    assert not reply.problem, reply.problem
    return reply.specs


def main() -> int:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="for example cuda")
    parser.add_argument("--target", default="cuda:90", help="of the device")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kernelqual-limits-") as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        settings = Settings(
            root_dir=str(FILE.parent), device=f"target:{given.target}", compile_workers=len(os.sched_getaffinity(0))
        )
        process = DeviceProcess(settings)
        told = predicted(described(process), process, settings)
        process.close()
        counts = Counter(outcome for outcome, _ in told.values())
        print(f"told of {given.target}: {len(told)} configs, {dict(counts)}", flush=True)
        if given.device is None:
            return 0
        process = DeviceProcess(
            Settings(root_dir=str(FILE.parent), device=given.device, repeats=MIN_REPEATS, provocation=False)
        )
        seen = launched(described(process), process)
        process.close()
    print(f"launched on {given.device}: {len(seen)} configs, {dict(Counter(one for one, _ in seen.values()))}")
    wrong = [key for key in told.keys() | seen.keys() if told.get(key) != seen.get(key)]
    for key in sorted(wrong):
        print(f"  {' '.join(key)}: told {told.get(key)}, really {seen.get(key)}")
    print(f"{len(told) - len(wrong)} of {len(told)} agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
