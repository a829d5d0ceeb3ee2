"""Print by how much `triton.testing.do_bench`, and the timing of gates, err for short kernels.

    python benchmarks/do_bench_error.py [--runs 5] [--truth-ms 300]

Needs a GPU.
The truth is one long interval of graph replays over inputs and outputs that put each other out of the L2 cache.
Every method is run several times on each kernel; errors are those of the runs, smallest and largest.
"""

import argparse
import contextlib
import math
import statistics
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pytest_kernelqual.gating.arms import Arms, Place
from pytest_kernelqual.gating.gates import control
from pytest_kernelqual.judge.statistics import LAST_LOOK
from pytest_kernelqual.model.messages import Describe, Described
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.processes.device import Limits
from pytest_kernelqual.processes.device_process import DeviceProcess

LIMITS = Limits(300, 300, 300)
PLANTED = Path(__file__).parent / "planted"
MARGIN = 0.02
# Launches of one replay at least, so that the gap between replays is less than a thousandth of it.
LEAST_LAUNCHES = 512
MOST_SETS = 4096


class Gates(NamedTuple):
    """What the timing of gates says of one case."""

    times_us: list[float]
    how: str


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--truth-ms", type=float, default=300.0)
    options = parser.parse_args()
    # First of all: this process must not be another one on the device while the device process takes samples.
    gates = by_gates(options.runs)
    sys.path.insert(0, str(PLANTED))
    from short import SIZES  # noqa: PLC0415 - imports torch

    print(f"{'n':>9s} {'work':>5s} {'truth us':>9s}   {'do_bench us':>11s} {'error %':>19s}   {'gates us':>9s} error %")
    for (n, iterations), (times_us, how) in zip(SIZES, gates, strict=True):
        bench_us = by_do_bench(n, iterations, options.runs)
        truth_us = by_replays(n, iterations, options.truth_ms)
        print(
            f"{n:9d} {iterations:5d} {truth_us:9.3f}   {_told(bench_us, truth_us, 11)}   "
            f"{_told(times_us, truth_us, 9)}  {how}",
            flush=True,
        )


def _told(times_us: Sequence[float], truth_us: float, width: int) -> str:
    """Return the median of the runs and the range of their errors."""
    if not times_us:
        return f"{'-':>{width}s} {'':19s}"
    errors = [(time_us / truth_us - 1) * 100 for time_us in times_us]
    return f"{statistics.median(times_us):{width}.3f} [{min(errors):+8.2f} {max(errors):+8.2f}]"


def by_gates(runs: int) -> list[Gates]:
    """Time each case as a gate does, in a device process that is gone afterwards."""
    device = DeviceProcess(Settings(root_dir=str(PLANTED), device="cuda"))
    try:
        path = str(PLANTED / "qual_short.py")
        described = device.ask(Describe(path=path), LIMITS)
        assert isinstance(described, Described), described
        assert not described.problem, described.problem
        (spec,) = described.specs
        assert not spec.problem, spec.problem
        return [_by_gates(device, Place(path, spec.name, case.id, LIMITS), runs) for case in spec.cases]
    finally:
        device.close()


def _by_gates(device: DeviceProcess, place: Place, runs: int) -> Gates:
    arms = Arms(device, place, [None, None], exclusive=contextlib.nullcontext)
    armed = control(arms, margin=MARGIN, qualify=True)
    if armed.verdict != "ok":
        return Gates([], armed.reason)
    taken = [arms.sample(0, 1, LAST_LOOK) for _ in range(runs)]
    times_us = [statistics.median(sample for abba in rounds for sample in abba) for rounds in taken]
    return Gates(times_us, f"({armed.cache}, ring {armed.ring}, {armed.launches} launches)")


def by_do_bench(n: int, iterations: int, runs: int) -> list[float]:
    """Return what `do_bench` says, in microseconds."""
    import triton.testing  # noqa: PLC0415 - the process may touch the device only now
    from short import work  # noqa: PLC0415

    x = _input(n)
    return [float(triton.testing.do_bench(lambda: work(x, iterations))) * 1e3 for _ in range(runs)]


def by_replays(n: int, iterations: int, least_ms: float) -> float:
    """Return the time of one launch in microseconds over replays that take `least_ms` together."""
    import torch  # noqa: PLC0415
    from short import work  # noqa: PLC0415

    l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    footprint_bytes = 2 * 4 * n
    sets = min(max(math.ceil(4 * l2_bytes / footprint_bytes), 2), MOST_SETS)
    inputs = [_input(n) for _ in range(sets)]
    launches = max(sets, LEAST_LAUNCHES)
    work(inputs[0], iterations)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # Outputs live as long as it takes to go through all inputs once, so that they are as many buffers.
    outputs: deque[Any] = deque(maxlen=sets)
    with torch.cuda.graph(graph):
        for index in range(launches):
            outputs.append(work(inputs[index % sets], iterations))
    outputs.clear()
    once_ms = _elapsed_ms(torch, graph.replay, 2) / 2
    replays = max(math.ceil(least_ms / once_ms), 3)
    return _elapsed_ms(torch, graph.replay, replays) * 1e3 / (replays * launches)


def _elapsed_ms(torch: Any, replay: Callable[[], None], times: int) -> float:
    replay()  # the first one uploads the graph, and the clocks settle
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(times):
        replay()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end))


def _input(n: int) -> Any:
    import torch  # noqa: PLC0415

    return torch.randn(n, device="cuda")


if __name__ == "__main__":
    main()
