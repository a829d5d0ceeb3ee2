"""Gate unchanged configs against themselves, in fresh processes, and count what the gate would have said.

    python benchmarks/false_alarms.py [--processes 20] [--decisions 3] [--margin 0.02] [--paths kernels] [-k WORD]

Needs a GPU.
Each kernel's first case is opened with its fixed launch as four arms: two for the control, and pairs of them for the
decisions.
A decision that fails, after confirmation in two fresh processes, is a false alarm.
"""

import argparse
import contextlib
import statistics
import time
from collections import Counter
from pathlib import Path

from pytest_kernelqual.gating.arms import Arms, Place
from pytest_kernelqual.gating.gates import control, gate
from pytest_kernelqual.model.messages import Describe, Described
from pytest_kernelqual.model.record import GateRecord
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.processes.device import Limits
from pytest_kernelqual.processes.device_process import DeviceProcess

LIMITS = Limits(300, 300, 300)
PAIRS = ((0, 2), (2, 1), (1, 3), (3, 0), (2, 3), (0, 1))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--decisions", type=int, default=3)
    parser.add_argument("--margin", type=float, default=0.02)
    parser.add_argument("--paths", default="kernels")
    parser.add_argument("-k", default="")
    options = parser.parse_args()
    root = Path(options.paths).resolve()
    settings = Settings(root_dir=str(root.parent), device="cuda")
    decisions: dict[str, list[GateRecord]] = {}
    seconds: list[float] = []
    confirming = [DeviceProcess(settings), DeviceProcess(settings)]
    for number in range(options.processes):
        device = DeviceProcess(settings)
        for path in sorted(root.glob("qual_*.py")):
            described = device.ask(Describe(path=str(path)), LIMITS)
            assert isinstance(described, Described), described
            for spec in described.specs:
                if options.k not in spec.name:
                    continue
                place = Place(str(path), spec.name, spec.cases[0].id, LIMITS)
                began = time.monotonic()
                arms = Arms(device, place, [None] * 4, exclusive=contextlib.nullcontext)
                records = [control(arms, margin=options.margin, qualify=True)]
                for pair in PAIRS[: options.decisions] if records[0].verdict == "ok" else ():
                    fresh = [Arms(other, place, [None] * 2, exclusive=contextlib.nullcontext) for other in confirming]
                    records.append(
                        gate(
                            "not_slower_than_fixed", arms, pair, margin=options.margin, fresh=lambda fresh=fresh: fresh
                        )
                    )
                seconds.append((time.monotonic() - began) / max(len(records) - 1, 1))
                decisions.setdefault(spec.name, []).extend(records)
        device.close()
        print(f"process {number + 1}: {dict(_count(decisions))}", flush=True)
    for other in confirming:
        other.close()
    _print(decisions, seconds)


def _count(decisions: dict[str, list[GateRecord]]) -> Counter[str]:
    return Counter(
        f"{'control ' if record.gate == 'control' else ''}{record.verdict}"
        for records in decisions.values()
        for record in records
    )


def _print(decisions: dict[str, list[GateRecord]], seconds: list[float]) -> None:
    head = "cache ring    n       us  A/A control: bias, half-width %   decisions: ratio %, verdicts"
    print(f"{'kernel':26s} {head}")
    for name, records in decisions.items():
        controls = [record for record in records if record.gate == "control" and record.ratio]
        gates = [record for record in records if record.gate != "control" and record.ratio]
        if not controls:
            print(f"{name:26s} {records[0].reason}")
            continue
        last = controls[-1]
        bias = [(record.ratio[0] - 1) * 100 for record in controls]
        half = [(record.ratio[2] - record.ratio[1]) * 50 for record in controls]
        ratios = [(record.ratio[0] - 1) * 100 for record in gates] or [0.0]
        confirmed = sum(len(record.processes) > 1 for record in gates)
        print(
            f"{name:26s} {last.cache:5s} {last.ring:4d} {last.launches:4d} {last.time_us[0]:8.2f}  "
            f"{statistics.median(bias):+6.3f} [{min(bias):+6.3f} {max(bias):+6.3f}] {statistics.median(half):6.3f}   "
            f"[{min(ratios):+6.3f} {max(ratios):+6.3f}] suspects {confirmed} "
            f"{dict(Counter(record.verdict for record in records))}"
        )
    total = _count(decisions)
    median, longest = statistics.median(seconds), max(seconds)
    print(f"seconds a decision, opening and control included: median {median:.3f}, max {longest:.3f}")
    print(f"all: {dict(total)}")


if __name__ == "__main__":
    main()
