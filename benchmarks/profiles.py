"""Print what profiles cost and find on this GPU: `python benchmarks/profiles.py [--only EXPRESSION] [--report FOLDER]`.

Two parts: wall times of `pytest --kernelqual kernels`, or of what `-k EXPRESSION` leaves of it, with the compile cache
warm: without profiles, with the default ones and with all; and the kernels of `tests/sensitivity/exposed`, each of
whose faults one profile or probe must show. Candidates are looked at and graded in every run, the first one too.
The exit status is 1 where the default profiles, or all of them, cost more than twice the run without, a kernel of this
repository fails, or a fault is not found.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from tabulate import tabulate

ROOT = Path(__file__).resolve().parent.parent
EXPOSED = ROOT / "tests/sensitivity/exposed"
MOST_TIMES = 2.0
# By spec: the input set that shows the fault of its second candidate. Derived cases have normal inputs.
FOUND_ON = {
    "denormals": "denormals/0", "zeros": "denormals/0", "largest": "boundaries/0", "payloads": "nonfinite/0",
    "ties": "ties/0", "magnitudes": "exponents/0", "overflow": "constant/0", "padded_maximum": "equal_rows/0",
    "padding_nan": "equal_rows/0", "tied_positions": "equal_rows/0", "empty_rows": "one_hot/0",
    "order": "cancelling/0", "repeats": "repeats/0", "wrapping": "extremes/0", "descents": "sorted/0",
    "ascents": "reversed/0", "strides": "strided/0", "far_rows": "beyond_2_31/0", "addresses": "misaligned/0",
    "rounds": "normal/0", "last_tiles": "normal/0",
}  # fmt: skip


class Ran(NamedTuple):
    """One run of pytest."""

    wall_s: float
    status: int
    document: dict[str, Any]


def main() -> int:
    """Measure, run the bank, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="EXPRESSION", default="", help="-k of the runs that are timed")
    parser.add_argument("--report", metavar="FOLDER", help="keep the reports here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.report or temporary).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        fine = [_bank(folder), _cost(folder, options.only)]
    return 0 if all(fine) else 1


def _cost(folder: Path, only: str) -> bool:
    """Print wall times, and on which profiles candidates were found to differ."""
    path = str(ROOT / "kernels")
    _run(path, folder / "warm.json", "none", only)
    runs = {name: _run(path, folder / f"{name}.json", name, only) for name in ("none", "default", "all")}
    base_s = runs["none"].wall_s
    rows = [
        (name, ran.wall_s, (ran.wall_s - base_s) / base_s, ran.status, ran.document["controls"]["compared"], _told(ran))
        for name, ran in runs.items()
    ]
    print(
        "cost of profiles; looks and grades of evidence cannot be switched off and are part of every run, `none` too:"
    )
    print(tabulate(rows, headers=["profiles", "s", "extra times", "status", "compared", "found on"], floatfmt=".2f"))
    aside = Counter(
        (made["profile"], made["set_aside"][:70])
        for case in _cases(runs["all"])
        for made in case["input_sets"]
        if made["set_aside"]
    )
    print(tabulate([(*key, count) for key, count in aside.most_common()], headers=["profile", "put aside", "cases"]))
    dear = [f"{name}: {extra:.2f}" for name, _, extra, *_ in rows if extra > MOST_TIMES]
    if dear:
        print(f"extra cost beyond {MOST_TIMES:.0f} times the run without profiles: {', '.join(dear)}")
    return not dear and all(ran.status == 0 for ran in runs.values())


def _told(ran: Ran) -> str:
    """Count candidates that differ by the input set that showed it."""
    found = Counter(
        record["detail"]["input_set"]
        for case in _cases(ran)
        for record in case["candidates"]
        if "input_set" in record["detail"]
    )
    return ", ".join(f"{count} {name}" for name, count in found.most_common())


def _bank(folder: Path) -> bool:
    """Print where each fault was found; the figures of what was put aside tell of memory that was not there."""
    ran = _run(str(EXPOSED), folder / "exposed.json", "none")
    rows = []
    for kernel in ran.document["kernels"]:
        wanted = FOUND_ON[kernel["kernel"]]
        sound = all(case["candidates"][0]["outcome"] == "qualified" for case in kernel["cases"])
        failing = [case["candidates"][1] for case in kernel["cases"] if case["candidates"][1]["outcome"] != "qualified"]
        found = {record["detail"].get("input_set") for record in failing}
        told = ", ".join(f"{record['outcome']} on {record['detail'].get('input_set')}" for record in failing)
        aside = [made["set_aside"] for case in kernel["cases"] for made in case["input_sets"] if made["set_aside"]]
        verdict = "as expected" if sound and found == {wanted} else f"WRONG: expected {wanted}"
        rows.append((kernel["kernel"], told, verdict, "; ".join(aside)))
    print(tabulate(rows, headers=["spec", "found", "verdict", "put aside"]))
    missing = FOUND_ON.keys() - {row[0] for row in rows}
    if missing:
        print(f"not in the report: {sorted(missing)}")
    return not missing and all(row[2] == "as expected" for row in rows)


def _cases(ran: Ran) -> list[dict[str, Any]]:
    return [case for kernel in ran.document["kernels"] for case in kernel["cases"]]


def _run(path: str, report: Path, profiles: str, only: str = "") -> Ran:
    """Run pytest on candidates alone: rows of committed configs are timed."""
    chosen = f"test_candidates and ({only})" if only else "test_candidates"
    command = [sys.executable, "-m", "pytest", "--kernelqual", "-q", "-p", "no:cacheprovider", path, "-k", chosen]
    command += [f"--kernelqual-json={report}"]
    command += [f"--kernelqual-profiles={profiles}"] if profiles != "default" else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    report.unlink(missing_ok=True)
    began = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    wall_s = time.perf_counter() - began
    print(f"{Path(path).name}, profiles {profiles}: exit status {done.returncode}, {wall_s:.1f} s", flush=True)
    if not report.exists():
        print(done.stdout[-6000:], done.stderr[-2000:])
        raise SystemExit(1)
    return Ran(wall_s, done.returncode, json.loads(report.read_text()))


if __name__ == "__main__":
    raise SystemExit(main())
