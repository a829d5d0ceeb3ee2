"""Print what qualifying a candidate costs beyond its launches, next to a hand-written loop that does the same.

    python benchmarks/overhead.py [MIB]

Both run on the CPU, on the same inputs and launch: fresh inputs, poisoned and guarded output, two launches under two
poison patterns, guards checked, bytes compared.
The hand-written loop knows its one input and output; the tool finds and checks everything that a launch can touch, in
another process.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from pytest_kernelqual.model.messages import Open, Try
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.processes.device import Limits
from pytest_kernelqual.processes.device_process import DeviceProcess

ROUNDS = 200
LIMIT_MS = 2.0
GUARD = 4096

SPEC = """
import torch
from pytest_kernelqual import Case, Config, kernel_spec

@kernel_spec(candidates=[Config(A=1)], cases=[Case(n={n})])
def add(case, seeded):
    x = seeded.normal((case.n,), name="x")
    def launch(config):
        y = torch.empty_like(x)
        torch.add(x, 1.0, out=y)
        return y
    return launch
"""


def by_hand(n: int) -> Callable[[], None]:
    """Return one candidate of the hand-written loop."""
    pristine = torch.randn(n)
    x = pristine.clone()
    expected = pristine + 1.0
    size = n * 4

    def candidate() -> None:
        for pattern in (0xFF, 0x5A):
            x.copy_(pristine)
            block = torch.empty(2 * GUARD + size, dtype=torch.uint8).fill_(pattern)
            y = block[GUARD : GUARD + size].view(torch.float32)
            torch.add(x, 1.0, out=y)
            assert bool((block[:GUARD] == pattern).all())
            assert bool((block[GUARD + size :] == pattern).all())
            assert torch.equal(x.view(torch.uint8), pristine.view(torch.uint8))
            assert torch.equal(y.view(torch.int32), expected.view(torch.int32))

    return candidate


def launches_only(n: int) -> Callable[[], None]:
    """Return the two launches alone."""
    x = torch.randn(n)

    def twice() -> None:
        for _ in range(2):
            y = torch.empty_like(x)
            torch.add(x, 1.0, out=y)

    return twice


def median_ms(call: Callable[[], object]) -> float:
    """Return the median time of a call in milliseconds."""
    for _ in range(20):
        call()
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)


def main() -> None:
    """Measure and print."""
    mib = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    n = int(mib * 2**20) // 4
    limits = Limits(300, 300, 300)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "qual_add.py"
        path.write_text(SPEC.format(n=n))
        device = DeviceProcess(Settings(root_dir=folder, device="interpreter"))
        device.ask(Open(path=str(path), spec="add", case=f"n{n}"), limits)
        ours = median_ms(lambda: device.ask(Try(config={"A": 1}), limits))
        device.close()
    hand, launches = median_ms(by_hand(n)), median_ms(launches_only(n))
    print(f"one candidate of two launches, {mib:g} MiB of output, median of {ROUNDS}:")
    print(f"  launches alone       {launches:7.3f} ms")
    print(f"  hand-written loop    {hand:7.3f} ms  (beyond the launches {hand - launches:.3f} ms)")
    beyond = ours - launches
    print(f"  pytest-kernelqual    {ours:7.3f} ms  (beyond the launches {beyond:.3f} ms, limit {LIMIT_MS:g} ms)")
    print(f"  ratio ours / by hand {ours / hand:7.2f}")


if __name__ == "__main__":
    main()
