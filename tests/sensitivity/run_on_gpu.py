"""Run the sensitivity bank on a GPU with several seeds, and print what each kernel got.

    python tests/sensitivity/run_on_gpu.py [--runs 10] [--first 0] [--workers 8] [--at-once 2] [--limit-s 230]

One line for each broken kernel: what it must get, in how many runs it got that, and what it got otherwise; then each
delicate kernel that was flagged, and the totals. The exit status is 1 unless every broken kernel was found and no
delicate one was flagged in every run.
No run outlives the limit; what was not reached by then is `missing`.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from expectations import BROKEN, DELICATE, QUALIFIED, agrees, expected
from running import Seen, run_bank

INTERPRETER = "interpreter"
MISSING = "missing"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="seed of the first run")
    parser.add_argument("--workers", type=int, default=8, help="pytest-xdist's, of each run; 0: serial")
    parser.add_argument("--at-once", type=int, default=2, help="runs at a time")
    parser.add_argument("--limit-s", type=float, default=230.0, help="of all runs together")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + options.limit_s
    with tempfile.TemporaryDirectory(prefix="kernelqual-bank-") as folder, ThreadPoolExecutor(options.at_once) as pool:

        def run(number: int) -> Seen:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return Seen({}, "not begun: the time was up")
            root = Path(folder, f"run{number}")
            seen = run_bank(root, device=options.device, seed=number, workers=options.workers, limit_s=left_s)
            took_s = options.limit_s - (deadline - time.monotonic())
            print(f"run {number}: {len(seen.outcomes)} outcomes after {took_s:.0f} s", file=sys.stderr, flush=True)
            return seen

        runs = list(pool.map(run, range(options.first, options.first + options.runs)))
    return report(runs, interpreted=options.device == INTERPRETER)


def report(runs: Sequence[Seen], *, interpreted: bool) -> int:
    """Print what was seen, and return the exit status."""
    names = {(spec, candidate) for seen in runs for spec, _, candidate in seen.outcomes}
    rows = {(row.spec, row.candidate): row for row in BROKEN if row.gpu != QUALIFIED}
    names |= rows.keys()
    ordered = [*rows, *sorted(names - rows.keys())]
    found = broken = missing = 0
    flagged: dict[tuple[str, str], Counter[str]] = {}
    for spec, candidate in ordered:
        wanted = expected(spec, candidate, interpreted=interpreted)
        outcomes = [_of_all_cases(seen, spec, candidate, wanted) for seen in runs]
        right = sum(agrees(outcome, wanted) for outcome in outcomes)
        others = Counter(outcome for outcome in outcomes if not agrees(outcome, wanted))
        missing += others[MISSING]
        if (spec, candidate) in rows:
            broken, found = broken + 1, found + (right == len(runs))
            print(f"{_name(spec, candidate):72s} {wanted:36s} {right:2d} of {len(runs)}{_told(others)}")
        elif others.keys() - {MISSING}:
            flagged[spec, candidate] = others
    delicate = {spec for spec, _ in flagged} & set(DELICATE)
    for (spec, candidate), others in flagged.items():
        kind = "delicate" if spec in DELICATE else "beside broken ones"
        print(f"flagged, {kind}: {_name(spec, candidate)}{_told(others)}")
    sound = len(names) - len(rows)
    print(f"broken kernels that got their outcome in every run: {found} of {broken}")
    print(f"delicate kernels that were flagged in any run: {len(delicate)} of {len(DELICATE)}")
    print(f"sound candidates that were flagged in any run: {len(flagged)} of {sound}")
    if missing:
        print(f"outcomes that were not reached: {missing}")
    if not all(seen.outcomes for seen in runs):
        print(next(seen.text for seen in runs if not seen.outcomes)[-4000:], file=sys.stderr)
    return 0 if found == broken and not flagged and not missing else 1


def _of_all_cases(seen: Seen, spec: str, candidate: str, wanted: str) -> str:
    """Return the outcome; where cases differ, one that is not what was wanted."""
    outcomes = [outcome for (name, _, id_), outcome in seen.outcomes.items() if (name, id_) == (spec, candidate)]
    return next((outcome for outcome in outcomes if not agrees(outcome, wanted)), next(iter(outcomes), MISSING))


def _name(spec: str, candidate: str) -> str:
    return f"{spec} {candidate}"


def _told(others: Counter[str]) -> str:
    return "".join(f", {count} x {outcome}" for outcome, count in others.most_common())


if __name__ == "__main__":
    sys.exit(main())
