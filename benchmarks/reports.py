"""Print how long `kernelqual report` and `kernelqual diff` take on large reports, and how much memory they need.

    python benchmarks/reports.py [--kernels 300] [--candidates 40] [--cases 4] [--rounds 3] [--keep FOLDER]

Two reports are made from a seed, the second with changes of every kind in it: 48,000 records each, unless told
otherwise.
Each command runs as a process of its own, so that starting Python and reading the files is counted.
The shortest of the runs is held against the limit, since other work makes the others longer; where the machine is busy
by itself, its CPU time is, since each command has one thread.
Exits with 1 where a limit is missed; limits are for reports of the default size.
"""

import argparse
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tabulate import tabulate

from pytest_kernelqual.judge.verdict import case_failures
from pytest_kernelqual.model.config import Config, Scalar
from pytest_kernelqual.model.record import (
    CandidateRecord,
    CaseRecord,
    CommittedRecord,
    DeviceDescriptor,
    Environment,
    FixedRecord,
    GateRecord,
    InputSetRecord,
    KernelRecord,
)
from pytest_kernelqual.report.document import build, encode

MEMORY_LIMIT_MB = 500
ENVIRONMENT = Environment(
    device=DeviceDescriptor(
        kind="cuda", name="NVIDIA H200", architecture="sm_90", compute_units=132, memory_bytes=150 << 30, uuid="GPU-1"
    ),
    driver="570.86",
    runtime="12.8",
    torch="2.11.0",
    triton="3.6.0",
    python="3.12.3",
    kernelqual="0.1.0",
    seeds=2,
    repeats=4,
    started_at="2025-01-01T00:00:00+00:00",
)
OUTCOMES: tuple[tuple[Any, str, float], ...] = (
    ("qualified", "", 0.85),
    ("mismatch", "12 of 4096 elements differ, first at (3, 17): expected 1.5 got 1.25, max 1 ULP (rounding)", 0.06),
    ("out_of_resources", "shared memory: 245760 bytes required, the limit is 232448; use a smaller tile", 0.05),
    ("compile_error", "static assertion failed: BLOCK must divide the size", 0.02),
    ("unsupported", "grid does not follow BLOCK", 0.02),
)
EVIDENCE: tuple[Any, ...] = ("identical_bytes", "identical_order", "identical_binary")
MISMATCH = {
    "output": "return",
    "elements": 4096,
    "differing": 12,
    "first_index": [3, 17],
    "expected": "1.5",
    "actual": "1.25",
    "max_absolute": 0.25,
    "max_relative": 0.2,
    "max_ulp": 1,
    "diagnosis": "rounding",
}


class Limit(NamedTuple):
    """One command, and what it may take."""

    name: str
    arguments: tuple[str, ...]
    limit_s: float
    largest_mb: float = 0.0
    """Of what it writes; 0: any."""


class Seen(NamedTuple):
    """What a run of a command took."""

    wall_s: float
    cpu_s: float
    memory_mb: float
    written_mb: float
    status: int


def main() -> int:
    """Make the reports, run the commands, print the table."""
    options = _options()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        base, head = folder / "base.json", folder / "head.json"
        # In a process of its own, since the memory of this one would count as that of the commands.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            for path, changed in ((base, 0.0), (head, 0.01)):
                pool.submit(_make, path, (options.kernels, options.candidates, options.cases), changed).result()
        records = options.kernels * options.candidates * options.cases
        print(f"{records:,} records a report, {base.stat().st_size / 1e6:.0f} MB; shortest of {options.rounds} runs")
        missed = [row for row in _limits(base, head) if not _held(row, folder / "out", options.rounds)]
    for limit in missed:
        print(f"missed: {limit.name}")
    return 1 if missed else 0


def made(kernels: int, candidates: int, cases: int, *, changed: float = 0.0, seed: int = 0) -> bytes:
    """Return the JSON of a report; `changed` is the part of its records that differ from those of the same seed."""
    rng, other = (random.Random(number) for number in (seed, seed + 1))  # noqa: S311 - made-up records
    records = [_kernel(number, candidates, cases, rng, other, changed) for number in range(kernels)]
    return encode(build(records, ENVIRONMENT, [case.nodeid for kernel in records for case in kernel.cases]))


def _make(path: Path, sizes: tuple[int, int, int], changed: float) -> None:
    path.write_bytes(made(*sizes, changed=changed))


def _kernel(
    number: int, candidates: int, cases: int, rng: random.Random, other: random.Random, changed: float
) -> KernelRecord:
    name = f"layer_{number}_kernel_fwd"
    nodeid = f"kernels/qual_layers_{number % 20}.py::{name}"
    made_cases = [_case(nodeid, index, candidates, rng, other, changed) for index in range(cases)]
    return KernelRecord(
        kernel=name,
        nodeid=nodeid,
        notes=["the fixed launch is the first config of the autotuner"],
        cases=made_cases,
        committed=[_row(nodeid, case, rng, other, changed) for case in made_cases],
    )


def _case(
    nodeid: str, index: int, candidates: int, rng: random.Random, other: random.Random, changed: float
) -> CaseRecord:
    rows = 1 << (6 + 2 * index)
    records = [_candidate(one, rng, other, changed) for one in range(candidates)]
    digest = rng.randbytes(32).hex()
    bytes_changed = other.random() < changed
    fixed = FixedRecord(
        outcome="qualified",
        config={"BLOCK": 128, "num_warps": 4, "num_stages": 2},
        output=f"sha256:{other.randbytes(32).hex() if bytes_changed else digest}",
        inputs=f"sha256:{'1' * 64}",
        order=rng.randbytes(16).hex(),
        launches=3,
        provocation=["", "dirty", "dirty+noise"],
    )
    failures = case_failures(fixed, records, screen=None)
    return CaseRecord(
        id=f"rows{rows}-cols4096-bfloat16",
        case={"rows": rows, "cols": 4096, "dtype": "bfloat16"},
        key={"rows": rows, "dtype": "bfloat16"},
        nodeid=f"{nodeid}::test_candidates[rows{rows}-cols4096-bfloat16]",
        inputs=f"sha256:{'2' * 64}",
        input_sets=[InputSetRecord(profile="normal", seed=seed) for seed in range(2)],
        fixed=fixed,
        candidates=records,
        dead_axes=["num_stages"] if index == 0 else [],
        passed=not failures,
        failures=failures,
        duration_s=round(rng.uniform(0.1, 3), 3),
    )


def _candidate(index: int, rng: random.Random, other: random.Random, changed: float) -> CandidateRecord:
    config: dict[str, Scalar] = {
        "BLOCK": 16 << (index % 5),
        "num_warps": 1 << (index // 5 % 4),
        "num_stages": 1 + index // 20,
    }
    weights = [weight for _, _, weight in OUTCOMES]
    drawn, order = (rng.choices(OUTCOMES, weights)[0], rng.choice(EVIDENCE)), rng.randbytes(16).hex()
    if other.random() < changed:
        drawn = other.choices(OUTCOMES, weights)[0], other.choice(EVIDENCE)
    (outcome, reason, _), evidence = drawn
    good = outcome == "qualified"
    return CandidateRecord(
        id=Config(config).id,
        config=config,
        outcome=outcome,
        reason=reason,
        evidence=evidence if good else None,
        phase=None if good else "compare",
        detail={"mismatches": [MISMATCH], "input_set": "normal 0"} if outcome == "mismatch" else {},
        resources={"shared_bytes": 1 << (10 + index % 7), "num_warps": 1 << (index // 5 % 4), "registers": 64},
        seeds=2,
        launches=8,
        order=order if good else "",
        fragile=["reduce axis 1: another layout"] if good and evidence == "identical_bytes" else [],
        provocation=["", "dirty", "dirty+noise", ""],
    )


def _row(nodeid: str, case: CaseRecord, rng: random.Random, other: random.Random, changed: float) -> CommittedRecord:
    best = case.candidates[rng.randrange(len(case.candidates))]
    slower = other.random() < changed
    ratio = round(rng.uniform(0.6, 0.99) * (1.2 if slower else 1.0), 6)
    committed = best.id
    gates = [
        _gate("control", "fixed", "fixed", 1.0, rng),
        _gate("not_slower_than_fixed", "fixed", committed, ratio, rng),
        _gate("near_best", case.candidates[0].id, committed, 1.01, rng),
    ]
    key = "-".join(map(str, case.key.values()))
    return CommittedRecord(
        device="nvidia_h200",
        key=case.key,
        nodeid=f"{nodeid}::test_committed[{key}-NVIDIA_H200]",
        config=best.config,
        evidence="identical_bytes",
        verdict="slower_than_fixed" if slower else "ok",
        reasons=[f"{committed} is slower than fixed by 4 % or more in each of 3 processes"] if slower else [],
        production="same",
        gates=gates,
        speed_up=round(1 / ratio, 4),
        timed_at="2025-01-01T00:00:00+00:00",
        passed=not slower,
    )


def _gate(gate: Any, a: str, b: str, ratio: float, rng: random.Random) -> GateRecord:
    time_us = rng.uniform(5, 50)
    return GateRecord(
        gate=gate,
        a=a,
        b=b,
        margin_pct=2.0,
        verdict="ok",
        ratio=[ratio, round(ratio - 0.002, 6), round(ratio + 0.002, 6)],
        processes=[ratio],
        time_us=[round(time_us, 4), round(time_us * ratio, 4)],
        method="graph",
        cache="cold",
        ring=16,
        launches=16,
        rounds=[[round(time_us * rng.uniform(0.99, 1.01), 4) for _ in range(4)] for _ in range(6)],
    )


def _limits(base: Path, head: Path) -> tuple[Limit, ...]:
    return (
        Limit("text", ("report", str(head)), 2.0),
        Limit("markdown", ("report", str(head), "--format", "markdown"), 2.0, 0.065536),
        Limit(
            "markdown against a base", ("report", str(head), "--base", str(base), "--format", "markdown"), 3.0, 0.065536
        ),
        Limit("annotations", ("report", str(head), "--format", "github"), 2.0),
        Limit("HTML", ("report", str(head), "--format", "html"), 5.0, 10.0),
        Limit("diff", ("diff", str(base), str(head)), 3.0),
        Limit("diff as JSON", ("diff", str(base), str(head), "--format", "json"), 3.0),
    )


def _held(limit: Limit, output: Path, rounds: int) -> bool:
    """Run a command, print its line, and tell whether it kept its limits."""
    seen = [_run(limit.arguments, output) for _ in range(rounds)]
    best = min(seen)
    took_s = best.cpu_s if os.getloadavg()[0] > (os.cpu_count() or 1) else best.wall_s
    memory = max(one.memory_mb for one in seen)
    held = (
        best.status in (0, 1)
        and took_s <= limit.limit_s
        and memory <= MEMORY_LIMIT_MB
        and (not limit.largest_mb or best.written_mb <= limit.largest_mb)
    )
    cells = [
        limit.name,
        f"{took_s:.2f} s of {limit.limit_s:g} s",
        f"{best.wall_s:.2f} s wall, {best.cpu_s:.2f} s CPU",
        f"{memory:.0f} MB of {MEMORY_LIMIT_MB} MB",
        f"{best.written_mb:.3f} MB" + (f" of {limit.largest_mb:g} MB" if limit.largest_mb else ""),
        "held" if held else f"MISSED (exit status {best.status})",
    ]
    print(tabulate([cells], tablefmt="plain", disable_numparse=True), flush=True)
    return held


def _run(arguments: tuple[str, ...], output: Path) -> Seen:
    with output.open("wb") as file:
        started = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-m", "pytest_kernelqual", *arguments], stdout=file)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu_s = usage.ru_utime + usage.ru_stime
    written_mb = output.stat().st_size / 1e6
    return Seen(wall_s, cpu_s, usage.ru_maxrss / 1024, written_mb, process.returncode)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("kernels", 300), ("candidates", 40), ("cases", 4), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--keep", metavar="FOLDER", help="where the reports are left")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
