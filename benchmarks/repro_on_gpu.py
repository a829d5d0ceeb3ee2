"""Have `kernelqual repro` write a script for failing candidates of the sensitivity bank, and tell which show the fault.

    python benchmarks/repro_on_gpu.py [--device=cuda] [--skip N] [--most N] [--sanitizer] [--minutes M] [--project DIR]

The bank (`tests/sensitivity/bank`) is run once, and of each kernel and outcome at most one candidate is taken, outcomes
in turn. One line for each: PASS where the script shows the fault, FAIL where it does not or was not written, with what
was said. `--sanitizer` also runs each script under compute-sanitizer and shows its lines.
Then `kernelqual explain` tells of the same candidates; on a GPU it must have code to compare wherever both compile.

A race, or a fault that some launches alone show, may be missed by its script; each other FAIL is a fault of the tool.
The exit status is 0 when all passed. Needs argcomplete, msgspec, torch and triton, as the package does.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BANK = ROOT / "tests/sensitivity/bank"
REPORT = "qualified-configurations.json"
NOTHING_TO_SHOW = {"qualified", "within_tolerance", "unsupported", "not_run", "baseline_suspect"}


class Failing(NamedTuple):
    """One candidate that failed."""

    kernel: str
    case: str
    id: str
    outcome: str


def main() -> int:
    """Print a line for each candidate, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "hip", "interpreter"))
    parser.add_argument("--most", type=int, default=1000, help="candidates that are taken (default: all)")
    parser.add_argument("--skip", type=int, default=0, help="candidates that are left out first, tried before say")
    parser.add_argument("--only", default="", help="kernels whose name holds this alone")
    parser.add_argument("--sanitizer", action="store_true", help="under compute-sanitizer too")
    parser.add_argument("--minutes", type=float, default=60.0, help="none is begun later (default: 60)")
    parser.add_argument("--project", type=Path, help="where the bank is run, or was run before (default: a new folder)")
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = (options.project or Path(name, "bank")).resolve()
        if not (folder / REPORT).exists():
            _run_bank(folder, options.device)
        if not (folder / REPORT).exists():
            return 2
        return _all(folder, Path(name), options)


def _all(folder: Path, scratch: Path, options: argparse.Namespace) -> int:
    until = time.monotonic() + 60 * options.minutes
    taken = [one for one in _in_turn(folder) if options.only in one.kernel][options.skip :][: options.most]
    counts = {"PASS": 0, "FAIL": 0}
    for number, one in enumerate(taken):
        if time.monotonic() > until:
            print(f"not begun for want of time: {len(taken) - number}")
            break
        extra = ["--sanitizer"] if options.sanitizer else []
        done = _command(folder, "repro", one, "-o", str(scratch / f"repro{number}"), *extra)
        verdict = "PASS" if done.returncode == 0 else "FAIL"
        counts[verdict] += 1
        print(f"{verdict} {one.outcome:20} {one.kernel}[{one.case}] {one.id}: {_kind(done)}", flush=True)
        shown = [line for line in done.stdout.splitlines() if line.strip().startswith("sanitizer:")]
        shown += (done.stdout + done.stderr).splitlines() if verdict == "FAIL" else []
        print("".join(f"       {line}\n" for line in shown), end="", flush=True)
        told = _explained(folder, one, options.device)
        if told:
            counts["FAIL"] += 1
            print(f"FAIL explain {one.kernel}[{one.case}] {one.id}: {told}", flush=True)
    print(f"{counts['PASS']} PASS, {counts['FAIL']} FAIL of {len(taken)}")
    return 0 if counts["PASS"] and not counts["FAIL"] else 1


def _run_bank(folder: Path, device: str) -> None:
    """Run the bank in a folder."""
    shutil.copytree(BANK, folder / "kernels", dirs_exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--kernelqual",
        f"--kernelqual-device={device}",
        "-q",
        "-p",
        "no:randomly",
    ]
    done = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    print(done.stdout.splitlines()[-1] if done.stdout else done.stderr, flush=True)


def _in_turn(folder: Path) -> Iterator[Failing]:
    """Yield one candidate of each kernel and outcome, so that each outcome comes early."""
    groups: dict[str, dict[str, Failing]] = {}
    for kernel in json.loads((folder / REPORT).read_text())["kernels"]:
        for case in kernel["cases"]:
            for record in case["candidates"]:
                if record["outcome"] not in NOTHING_TO_SHOW:
                    one = Failing(kernel["kernel"], case["id"], record["id"], record["outcome"])
                    groups.setdefault(one.outcome, {}).setdefault(one.kernel, one)
    queues = [[*group.values()] for group in groups.values()]
    for place in range(max(map(len, queues), default=0)):
        yield from (queue[place] for queue in queues if place < len(queue))


def _explained(folder: Path, one: Failing, device: str) -> str:
    """Return what is wrong with what is told of a candidate; empty where nothing is."""
    done = _command(folder, "explain", one, "--format", "json")
    if done.returncode:
        return done.stderr.strip()
    told: dict[str, Any] = json.loads(done.stdout)
    if device == "interpreter" or told["code"] is not None:
        return ""
    why = str(told["no_code"])
    compiles = one.outcome not in {"compile_error", "out_of_resources", "launch_error", "timeout"}
    none_to_tell = "neither launches a Triton kernel" in why or "not known without running" in why
    return "" if none_to_tell or not compiles else f"no code: {why}"


def _kind(done: "subprocess.CompletedProcess[str]") -> str:
    if "memory.pt" in done.stdout:
        return "the launch alone"
    return "the spec" if "inputs.pt" in done.stdout else "nothing written"


def _command(folder: Path, name: str, one: Failing, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest_kernelqual", name, REPORT, "--candidate", one.id]
    return subprocess.run(
        [*command, "--kernel", one.kernel, "--case", one.case, *arguments],
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}


if __name__ == "__main__":
    sys.exit(main())
