"""Print what provocation costs and finds on this GPU: `python benchmarks/provocation.py [--report FOLDER]`.

Four parts: microseconds that it adds to a launch; how much of uninitialised shared memory a kernel finds full of the
pattern; whether hooks, allocator, random numbers and streams see anything of it; and the suite
`tests/suites/provoked_on_gpu`, with provocation and without, against its `expected.json`.
The exit status is 1 where dirtying costs more than 50 us or noise more than 500 us, the pattern was not found,
something was seen, or an outcome is not the expected one.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tabulate import tabulate

ROOT = Path(__file__).resolve().parent.parent
SUITE = ROOT / "tests/suites/provoked_on_gpu"
sys.path[:0] = [str(ROOT), str(SUITE)]

from pytest_kernelqual.on_device.environment import Device  # noqa: E402 - from this working tree
from pytest_kernelqual.on_device.memory import PATTERN_A, PATTERN_B  # noqa: E402
from pytest_kernelqual.on_device.provocation import Provocation  # noqa: E402

MOST_US = {"plain": 50.0, "dirtied": 50.0, "dirtied, beside noise": 500.0}
ROUNDS = 200


def main() -> int:
    """Measure, run the suite, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", metavar="FOLDER", help="keep the reports of the suite here")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU here")
        return 1
    provocation = Provocation(Device("cuda", torch.device("cuda", 0)), wanted=True)
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}\nprovocation: {provocation.told}")
    fine = [_cost(provocation), _effect(provocation), _unseen(provocation)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.report or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        fine.append(_suite(folder.resolve()))
    return 0 if all(fine) else 1


def _cost(provocation: Provocation) -> bool:
    """Print what a launch of a small kernel takes, wait included, and what provocation adds."""
    x = torch.zeros(1 << 16, device="cuda")

    def launch() -> None:
        x.add_(1)

    def dirtied() -> None:
        with provocation.around(PATTERN_A):
            launch()

    def beside_noise() -> None:
        with provocation.around(PATTERN_B, noise=True):
            launch()

    plain_us = _time_us(launch)
    rows = [
        (name, taken_us, taken_us - plain_us)
        for name, taken_us in (
            ("plain", plain_us),
            ("dirtied", _time_us(dirtied)),
            ("dirtied, beside noise", _time_us(beside_noise)),
        )
    ]
    print(tabulate(rows, headers=["launch", "us", "added us"], floatfmt=".1f"))
    return all(added_us < MOST_US[name] for name, _, added_us in rows)


def _time_us(act: Callable[[], None]) -> float:
    """Return the median time of an act and of the wait for the device after it."""
    samples = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        act()
        torch.cuda.synchronize()
        samples.append((time.perf_counter() - began) * 1e6)
    return sorted(samples)[ROUNDS // 2]


def _effect(provocation: Provocation) -> bool:
    """Print which part of the words that a kernel finds in shared memory are the pattern, by kind of launch."""
    from provoked import shared  # noqa: PLC0415 - imports triton

    x = torch.ones(1024 * 256, device="cuda")
    shared(x, "copies_shared")
    rows = []
    for pattern in (PATTERN_A, PATTERN_B, PATTERN_A):
        with provocation.around(pattern) as done:
            found = shared(x, "copies_shared")
        # The kernel adds the number to itself: NaN stays NaN, and the large number of pattern B doubles.
        word = int.from_bytes(bytes([pattern] * 4), "little", signed=True)
        left = torch.full_like(x, word, dtype=torch.int32).view(torch.float32)
        same = found.isnan() if pattern == PATTERN_A else found == left + left
        rows.append((f"{pattern:#x}", "+".join(done), float(same.float().mean()) * 100))
    print(tabulate(rows, headers=["left behind", "done", "% of words that hold it"], floatfmt=".1f"))
    return min(row[2] for row in rows) > 0


def _unseen(provocation: Provocation) -> bool:
    """Print what Triton's launch hooks, torch's allocator, random numbers and streams show of provocation: nothing."""
    from triton import knobs  # noqa: PLC0415 - part of a GPU installation

    launches: list[Any] = []
    knobs.runtime.launch_enter_hook.add(launches.append)
    torch.randn(1, device="cuda")
    before = _state()
    try:
        for noise in (False, True):
            with provocation.around(PATTERN_A, noise=noise):
                pass
    finally:
        knobs.runtime.launch_enter_hook.remove(launches.append)
    after = _state()
    seen = [name for name, value in before.items() if after[name] != value]
    print(f"seen of provocation: {', '.join([*seen, *(['launch hooks'] if launches else [])]) or 'nothing'}")
    return not seen and not launches


def _state() -> dict[str, Any]:
    torch.cuda.synchronize()
    return {
        "allocator": torch.cuda.memory_stats()["allocation.all.allocated"],
        "reserved memory": torch.cuda.memory_reserved(),
        "random numbers": torch.cuda.get_rng_state().tolist(),
        "current stream": torch.cuda.current_stream().cuda_stream,
        "current device": torch.cuda.current_device(),
    }


def _suite(folder: Path) -> bool:
    """Print the outcomes of the suite with and without provocation; only those with it must be the expected ones."""
    expected = json.loads((SUITE / "expected.json").read_text())
    outcomes = {switch: _outcomes(folder, switch) for switch in ("on", "off")}
    rows = []
    for place, record in outcomes["on"].items():
        spec, _, id_ = place
        wanted = expected.get(spec, {}).get(id_, "qualified")
        without = outcomes["off"].get(place, {}).get("outcome", "none")
        verdict = "as expected" if record["outcome"] == wanted else f"WRONG: expected {wanted}"
        rows.append((*place, record["outcome"], without, verdict, record["reason"][:100]))
    headers = ["spec", "case", "candidate", "provoked", "not provoked", "verdict", "reason"]
    print(tabulate(rows, headers=headers))
    declared = {(spec, id_) for spec, candidates in expected.items() for id_ in candidates}
    missing = declared - {(spec, id_) for spec, _, id_ in outcomes["on"]}
    if missing:
        print(f"not in the report: {sorted(missing)}")
    return bool(rows) and not missing and all(row[5] == "as expected" for row in rows)


def _outcomes(folder: Path, switch: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Run the suite and return its candidates, and its fixed launches, by spec, case and id."""
    report = folder / f"provocation-{switch}.json"
    command = [sys.executable, "-m", "pytest", "--kernelqual", "-q", "-p", "no:cacheprovider", str(SUITE)]
    options = [f"--kernelqual-provocation={switch}", f"--kernelqual-json={report}", "--kernelqual-device=cuda"]
    began = time.perf_counter()
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, check=False)
    print(f"\nprovocation {switch}: exit status {done.returncode}, {time.perf_counter() - began:.1f} s")
    if not report.exists():
        print(done.stdout[-6000:], done.stderr[-2000:])
        return {}
    document = json.loads(report.read_text())
    print(f"provocation: {document['environment']['provocation']}")
    return {
        (kernel["kernel"], case["id"], record.get("id", "fixed")): record
        for kernel in document["kernels"]
        for case in kernel["cases"]
        for record in (case["fixed"], *case["candidates"])
    }


if __name__ == "__main__":
    raise SystemExit(main())
