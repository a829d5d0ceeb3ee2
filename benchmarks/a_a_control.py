"""Time the fixed launch of each kernel against itself and print what the gate would have seen.

    python benchmarks/a_a_control.py [--paths kernels] [--rounds 16] [--target-us 150] [-k WORD]

Needs a GPU.
One line per kernel: how it was sampled, time of a launch, estimate and half-width of the A/A ratio, and the device
time that the comparison took.
"""

import argparse
import math
import statistics
import time
from pathlib import Path

from pytest_kernelqual.judge.statistics import estimate, log_ratio_of_round
from pytest_kernelqual.model.messages import (
    Describe,
    Described,
    Open,
    OpenTiming,
    Opened,
    Sample,
    Sampled,
    TimingOpened,
)
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.processes.device import Limits
from pytest_kernelqual.processes.device_process import DeviceProcess


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paths", default="kernels")
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--target-us", type=float, default=150.0)
    parser.add_argument("-k", default="")
    options = parser.parse_args()
    limits = Limits(300, 300, 300)
    root = Path(options.paths).resolve()
    device = DeviceProcess(Settings(root_dir=str(root.parent), device="cuda"))
    print(
        f"{'kernel':28s} {'method':7s} {'cache':5s} {'ring':>4s} {'n':>5s} {'us':>9s} {'ratio %':>8s} {'half %':>7s} {'open s':>7s} {'s':>6s}"
    )
    for path in sorted(root.glob("qual_*.py")):
        described = device.ask(Describe(path=str(path)), limits)
        assert isinstance(described, Described), described
        for spec in described.specs:
            if options.k in spec.name:
                _measure(device, limits, str(path), spec.name, spec.cases[0].id, options)
    device.close()


def _measure(
    device: DeviceProcess, limits: Limits, path: str, spec: str, case: str, options: argparse.Namespace
) -> None:
    opened = device.ask(Open(path=path, spec=spec, case=case), limits)
    assert isinstance(opened, Opened), opened
    began = time.monotonic()
    plan = device.ask(OpenTiming(arms=[None, None], target_us=options.target_us), limits)
    ready = time.monotonic()
    assert isinstance(plan, TimingOpened), plan
    if plan.reason:
        print(f"{spec:28s} unmeasurable: {plan.reason}")
        return
    sampled = device.ask(Sample(first=0, second=1, rounds=options.rounds), limits)
    done = time.monotonic()
    assert isinstance(sampled, Sampled), sampled
    if sampled.reason:
        print(f"{spec:28s} unmeasurable: {sampled.reason}")
        return
    found = estimate([log_ratio_of_round(abba) for abba in sampled.rounds])
    median = statistics.median(sample for abba in sampled.rounds for sample in abba)
    print(
        f"{spec:28s} {plan.method:7s} {plan.cache:5s} {plan.ring:4d} {plan.launches:5d} {median:9.3f} "
        f"{math.expm1(found.log_ratio) * 100:8.3f} {found.half_width * 100:7.3f} {ready - began:7.3f} {done - ready:6.3f} "
        f"{plan.quantum_us:.3f} {plan.empty_us:.2f} {[(c.sm_mhz, c.throttled, c.foreign_processes) for c in sampled.clocks]}",
        flush=True,
    )


if __name__ == "__main__":
    main()
