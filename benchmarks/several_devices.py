"""Show what several GPUs of one machine do for this repository's suite, and that the answers are the same.

    python benchmarks/several_devices.py --report FOLDER [PHASE ...]

Without phases it runs all for which the machine has devices, each within its own time and all within --minutes.
What is done stays in --work, so that phases can be run by several commands; the report tells of all that is there.
It writes several-devices.md and an archive of reports and logs, and exits with 1 where something is not as it must be.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

from several_devices_report import CHOICES, Choice, Ended, report

from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.processes.device_process import DeviceProcess

HERE = Path(__file__).parent
ROOT = HERE.parent
PLANTED = (ROOT / "tests/suites/planted_on_gpu/qual_planted.py", HERE / "planted/qual_out_of_memory.py")
_SAMPLE_S = 0.25
_LEAST_S = 20.0
_KILL_S = 20.0


class Phase(NamedTuple):
    """One run of pytest, or one on each device at once."""

    name: str
    devices: int
    """How many it uses; 0: all."""
    workers: int
    """0: serial; -1: one for each device; -2: two."""
    limit_s: float
    planted: bool = False
    each: bool = False
    """A serial run on each device, all at once."""
    choices: bool = False
    """Small runs that choose devices in other ways, all at once."""


PHASES = (
    Phase("warm", 0, -2, 240),
    Phase("one", 1, 0, 240),
    Phase("two", 2, 2, 200),
    Phase("four", 4, 4, 150),
    Phase("boards", 0, 0, 260, each=True),
    Phase("choices", 2, 0, 120, choices=True),
    Phase("faults", 0, -1, 200, planted=True),
    Phase("four-on-two", 2, 4, 200),
    Phase("eight-on-four", 4, 8, 150),
)


def main() -> int:
    """Run the phases, write the report, return 1 where it names a problem."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [phase.name for phase in PHASES]
    parser.add_argument("phases", nargs="*", metavar="PHASE", help=f"of {', '.join(names)}")
    parser.add_argument("--report", type=Path, required=True, help="folder of the report")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "kernelqual-several-devices")
    parser.add_argument("--minutes", type=float, default=9.5, help="for all phases together")
    parser.add_argument("--only-report", action="store_true", help="run nothing")
    for_tests = parser.add_argument_group("for tests of this command")
    for_tests.add_argument("--devices", help="names of devices, by comma, instead of asking for them")
    for_tests.add_argument("--root", type=Path, default=ROOT, help="where pytest runs")
    for_tests.add_argument("--some", default="silu", help="-k of the small runs")
    for_tests.add_argument("--planted", type=Path, nargs="*", default=PLANTED, help="files with planted faults")
    for_tests.add_argument("--pytest", action="append", default=[], help="a further argument of pytest")
    options = parser.parse_args()
    unknown = set(options.phases) - set(names)
    if unknown:
        parser.error(f"unknown phase {min(unknown)!r}; use {', '.join(names)}")
    options.work.mkdir(parents=True, exist_ok=True)
    options.report.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + options.minutes * 60
    notes: list[str] = []
    if not options.only_report:
        devices = options.devices.split(",") if options.devices else visible_devices()
        print(f"devices: {' '.join(devices) or 'none'}", flush=True)
        if not devices:
            parser.error("no GPU is visible here, and nothing can be shown without one")
        for phase in PHASES:
            if options.phases and phase.name not in options.phases:
                continue
            if max(phase.devices, 1) > len(devices) or (phase.name in ("boards", "faults") and len(devices) == 1):
                notes.append(f"`{phase.name}` was not run: it needs more than {len(devices)} devices")
            elif ends - time.monotonic() < _LEAST_S:
                notes.append(f"`{phase.name}` was not run: --minutes={options.minutes:g} were used up")
            else:
                run_phase(phase, devices, options, min(phase.limit_s, ends - time.monotonic()))
                write(options, notes)
    text, problems = write(options, notes)
    print(text, flush=True)
    return 1 if problems else 0


def visible_devices() -> list[str]:
    """Return the devices as a device process names them."""
    process = DeviceProcess(Settings(root_dir=str(ROOT)))
    try:
        return process.hello().devices
    finally:
        process.close()


def run_phase(phase: Phase, devices: Sequence[str], options: argparse.Namespace, limit_s: float) -> None:
    """Run a phase; its runs leave their files in the folder of work."""
    used = devices[: phase.devices] if phase.devices else devices
    workers = -phase.workers * len(used) if phase.workers < 0 else phase.workers
    print(f"{phase.name}: {len(used)} devices, {workers or 'no'} workers, at most {limit_s:.0f} s", flush=True)
    with sampled_use(options.work / f"{phase.name}.use.json"):
        if phase.each:
            with ThreadPoolExecutor(len(used)) as pool:
                names = [f"{phase.name}-{number}" for number in range(len(used))]
                list(pool.map(lambda name, one: run_pytest(name, [one], 0, options, limit_s), names, used))
        elif phase.choices:
            with ThreadPoolExecutor(len(CHOICES)) as pool:
                list(pool.map(lambda choice: run_choice(choice, used, options, limit_s), CHOICES))
        else:
            run_pytest(phase.name, used, workers, options, limit_s, options.planted if phase.planted else ())


def run_choice(choice: Choice, devices: Sequence[str], options: argparse.Namespace, limit_s: float) -> None:
    """Run a few items on devices that are chosen in another way."""
    visible = [devices[number] for number in choice.visible]
    run_pytest(choice.name, visible, choice.workers, options, limit_s, more=("-k", options.some, *choice.more))


def run_pytest(
    name: str,
    visible: Sequence[str],
    workers: int,
    options: argparse.Namespace,
    limit_s: float,
    planted: Sequence[Path] = (),
    more: Sequence[str] = (),
) -> None:
    """Run pytest on some devices, and end it when its time is over."""
    made = options.work / name
    for suffix in ("json", "xml", "log", "times", "run"):
        made.with_name(f"{name}.{suffix}").unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "--kernelqual", "-p", "no:cacheprovider", "-p", "item_times"]
    command += [f"--kernelqual-json={made}.json", f"--junitxml={made}.xml", *options.pytest, *more]
    if not entry_points(group="pytest11", name="kernelqual"):  # the package is not installed, only on the path
        command += ["-p", "pytest_kernelqual.plugin"]
    command += ["-n", str(workers)] if workers else []
    if planted:
        command += [
            str(path) for path in (options.root / "kernels", options.root / "committed_configs") if path.exists()
        ]
        command += map(str, planted)
    # Without byte code every process compiles its libraries' sources again.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment["CUDA_VISIBLE_DEVICES"] = environment["HIP_VISIBLE_DEVICES"] = ",".join(visible)
    environment["ITEM_TIMES"] = f"{made}.times"
    began, began_at = time.monotonic(), time.time()
    with Path(f"{made}.log").open("wb") as log:
        running = subprocess.Popen(
            command,
            cwd=options.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code: int | None = running.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(running.pid, signal.SIGTERM)  # which pytest answers with a report of what it has
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(_KILL_S)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    ended = Ended(name, len(visible), workers, code, began_at, time.monotonic() - began)
    Path(f"{made}.run").write_text(json.dumps(ended._asdict()))
    print(f"{name}: exit status {code}, {ended.wall_s:.1f} s", flush=True)


@contextmanager
def sampled_use(path: Path) -> Iterator[None]:
    """Write how busy the driver says that each device was meanwhile, where its library is there."""
    ended = threading.Event()
    samples: dict[str, list[int]] = {}
    thread = threading.Thread(target=_sample, args=(ended, samples), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_KILL_S)
        path.write_text(json.dumps(samples))


def _sample(ended: threading.Event, samples: dict[str, list[int]]) -> None:
    try:
        import pynvml as nvml  # noqa: PLC0415 - optional

        nvml.nvmlInit()
        handles: dict[str, Any] = {}
        for number in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(number)
            handles[str(nvml.nvmlDeviceGetUUID(handle)).removeprefix("GPU-")] = handle
        while not ended.wait(_SAMPLE_S):
            for uuid, handle in handles.items():
                samples.setdefault(uuid, []).append(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    except Exception as error:  # noqa: BLE001 - whatever the library raises: the column stays empty
        print(f"use of devices is not sampled: {error}", file=sys.stderr, flush=True)


def write(options: argparse.Namespace, notes: Sequence[str]) -> tuple[str, list[str]]:
    """Write the report of all that is there, and the archive; return the report, and what is wrong."""
    text, problems = report(options.work, [phase.name for phase in PHASES])
    text = "\n".join([text, *(f"* {note}" for note in notes)])
    (options.report / "several-devices.md").write_text(f"{text}\n")
    with tarfile.open(options.report / "several-devices.tar.gz", "w:gz", compresslevel=3) as archive:
        for path in sorted(options.work.iterdir()):
            if path.is_file():
                archive.add(path, path.name)
    return text, problems


if __name__ == "__main__":
    sys.exit(main())
