"""Time arms of one case against each other: batched graph replays over a ring of input sets, interleaved."""

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from pytest_kernelqual.errors import UnmeasurableError
from pytest_kernelqual.model.outcome import Cache, Method
from pytest_kernelqual.on_device.captures import bound_pool, capturing
from pytest_kernelqual.on_device.inputs import SeededInputs
from pytest_kernelqual.on_device.sample_size import L2_FACTOR, l2_bytes, sample_size

_QUANTA = 100
_EMPTY_INTERVALS = 20
_PROBES = 200
# What the device spins before each sample, about 15 us, while the host queues the sample.
_SPIN_CYCLES = 30_000
# What it spins before the first of many samples, about 0.2 ms: the host is ahead from then on.
_HEAD_START_CYCLES = 400_000
# About 2 ms, in which the host queues some hundred events, or a handful of launches.
_LONG_SPIN_CYCLES = 4_000_000
# A device that idled takes about this long to run as it will.
_WARM_UP_S = 0.003
_ROUGH_LAUNCHES = 16
# Part of a sample's launches that is enough to choose by, and not to judge.
_ROUGH_PART = 1 / 4
# No launch is shorter; what an event reads of a single one is not precise enough to say more.
_LEAST_TIME_US = 1.0
# Readings are floats: steps below this are rounding.
_LEAST_STEP_US = 1e-3
_MOST_SPIN_CYCLES = 100_000_000


class Ruler(NamedTuple):
    """What the events of this device can tell, in microseconds."""

    quantum_us: float
    """Smallest step between two readings."""
    empty_us: float
    """Median reading of an interval with nothing in it."""

    def shortest_us(self) -> float:
        """Return how long a sample must be at least."""
        return max(_QUANTA * self.quantum_us, _EMPTY_INTERVALS * self.empty_us)


class _Sample(NamedTuple):
    """One sample that is queued."""

    begin: torch.cuda.Event
    end: torch.cuda.Event
    late: bool
    """The device came to its begin before all of it was queued, so that the interval may hold host time."""


class InputSet(NamedTuple):
    """One set of the ring: inputs and the launch that uses them."""

    inputs: SeededInputs
    launch: Callable[..., Any]


class Plan(NamedTuple):
    """How the samples of a comparison are taken."""

    method: Method
    cache: Cache
    ring: int
    """Input sets that are gone through in turn."""
    launches: int
    """Launches of one sample."""
    footprint_bytes: int
    """Bytes that one launch reads and writes at most."""
    restored: bool
    """Inputs are put back before each sample, outside of what is timed."""


def probe_ruler() -> Ruler:
    """Measure event quantum and empty interval on the current stream."""
    pairs = [_interval() for _ in range(_PROBES)]
    spin_cycles, late = _LONG_SPIN_CYCLES, True
    while late and spin_cycles <= _MOST_SPIN_CYCLES:  # a host that is behind would be what is measured
        _spin(spin_cycles)
        for begin, end in pairs:
            begin.record()
            end.record()
        late = pairs[0][0].query()  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        spin_cycles *= 4
    readings = sorted({round(begin.elapsed_time(end) * 1e3, 4) for begin, end in pairs})
    steps = [after - before for before, after in pairwise(readings) if after - before > _LEAST_STEP_US]
    median = statistics.median(begin.elapsed_time(end) * 1e3 for begin, end in pairs)
    return Ruler(quantum_us=min(steps, default=0.5), empty_us=median)


class Comparison:
    """Arms on one ring of input sets, ready to be sampled."""

    def __init__(
        self,
        make_set: Callable[[], InputSet],
        arms: Sequence[Callable[[], AbstractContextManager[Any]]],
        *,
        ruler: Ruler,
        arguments: Sequence[tuple[Any, ...]],
        output_bytes: int,
        mutates: bool,
        target_us: float,
        cold: bool,
    ) -> None:
        """Build the ring, choose how to sample, and launch every arm once.

        Args:
            make_set: Builds another input set.
            arms: Makes the context under which each arm launches.
            ruler: Of this device.
            arguments: Arguments of each arm's launch: empty, or the config.
            output_bytes: Bytes that one launch returns.
            mutates: Whether launches change their inputs, which are then restored before each sample.
            target_us: How long one sample should take.
            cold: Whether the inputs should come from memory and not from the L2 cache.

        Raises:
            UnmeasurableError: The launch waits for the device, or cannot be repeated.
        """
        self._arms = arms
        self._arguments = arguments
        self._ruler = ruler
        bound_pool()
        first = make_set()
        self._make_set = make_set
        self._footprint = _input_bytes(first.inputs) + output_bytes
        self._sets = [first]
        self._mutates = mutates
        self._cold = cold
        for arm in range(len(arms)):
            self._warm_up(arm, first)
        self._time_us = self._rough_time_us(mutates=mutates)
        self._spin_cycles = _SPIN_CYCLES
        self.lengthen(target_us)

    def lengthen(self, target_us: float) -> None:
        """Have a sample take about `target_us` from now on, which is longer than before."""
        wanted = math.ceil(max(target_us, self._ruler.shortest_us()) / self._time_us)
        size = sample_size(wanted, self._footprint, l2_bytes(), mutates=self._mutates, cold=self._cold)
        launches = size.launches
        self._sets += [self._make_set() for _ in range(len(self._sets), size.ring)]
        self._flush = _flush_buffer() if size.flushed else None
        self._live, self._pristine = _memories(self._sets) if self._mutates else ([], [])
        self._graphs: dict[tuple[int, int], torch.cuda.CUDAGraph] = {}
        self._apart = size.cache == "cold"
        method: Method = "graph" if self._capture(0, launches) else "events"
        if method == "events":
            launches = min(launches, 2_000)
        self.plan = Plan(method, size.cache, size.ring, launches, self._footprint, self._mutates)

    def warm_up(self) -> None:
        """Run the first arm until the clocks are as they stay."""
        self._prepare(0, self.plan.launches)
        began = time.monotonic()
        while time.monotonic() - began < _WARM_UP_S:
            self._sample(0, self.plan.launches)
            torch.cuda.synchronize()

    def rounds(self, first: int, second: int, count: int, *, roughly: bool = False) -> list[list[float]]:
        """Return rounds of arms A (`first`) and B (`second`): four samples, in microseconds per launch, as A, B, B, A.

        Every other round is taken as B, A, A, B, so that the place within a round favours neither arm.
        All are queued before the first is read: a device that idles between samples runs the next one differently.
        Where the host fell behind the device, all are taken again behind longer spins.
        Samples are shorter, and the graphs of arms that are sampled no other way too, `roughly`.
        """
        abba, baab = (first, second, second, first), (second, first, first, second)
        launches = self._rough_launches() if roughly else self.plan.launches
        for arm in (first, second):
            self._prepare(arm, launches)
        while True:
            _spin(_HEAD_START_CYCLES)
            for arm in (first, second):
                self._sample(arm, launches)
            turns = [[self._sample(arm, launches) for arm in (baab if turn % 2 else abba)] for turn in range(count)]
            torch.cuda.synchronize()
            if not any(sample.late for four in turns for sample in four):
                break
            self._spin_longer()
        taken = []
        for turn, four in enumerate(turns):
            told = [sample.begin.elapsed_time(sample.end) * 1e3 / launches for sample in four]
            taken.append([told[1], told[0], told[3], told[2]] if turn % 2 else told)
        return taken

    def _rough_launches(self) -> int:
        """Return a part of a sample's launches; where the sets put each other out of the cache, all sets are used."""
        least = self.plan.ring if self.plan.cache == "cold" and self._flush is None else 1
        return max(math.ceil(self.plan.launches * _ROUGH_PART), min(least, self.plan.launches))

    def _spin_longer(self) -> None:
        self._spin_cycles *= 4
        if self._spin_cycles > _MOST_SPIN_CYCLES:
            raise UnmeasurableError("host too slow: launches cannot be queued ahead of the device")

    def _sample(self, arm: int, launches: int) -> _Sample:
        """Queue a sample; one of launches that are not captured again, behind a longer spin, until it is not late."""
        while True:
            sample = self._queued(arm, launches)
            if self.plan.method == "graph" or not sample.late:
                return sample
            self._spin_longer()

    def _queued(self, arm: int, launches: int) -> _Sample:
        """Queue a sample on inputs as they were made, and on a cache without them where it is emptied."""
        self._restore()
        if self._flush is not None:
            self._flush.zero_()  # puts everything else out of the L2 cache
        if self.plan.method == "events":
            torch.cuda.synchronize()  # the whole of the spin is left for the host
        begin, end = _interval()
        # The spin keeps the device busy until all is queued, so that the interval holds no host time.
        _spin(self._spin_cycles)
        begin.record()
        if self.plan.method == "graph":
            self._graphs[arm, launches].replay()
        else:
            with self._arms[arm]():
                for index in range(launches):
                    self._call(arm, self._sets[index % len(self._sets)])
        end.record()
        return _Sample(begin, end, begin.query())  # type: ignore[no-untyped-call]

    def _restore(self) -> None:
        """Give inputs that launches change the bytes with which each launch must begin."""
        if self._mutates:
            torch._foreach_copy_(self._live, self._pristine)

    def _capture(self, arm: int, launches: int) -> bool:
        """Capture an arm; it takes the memory of the ones before, so that all write the same output buffers."""
        graph = self._captured(arm, launches, apart=self._apart)
        if graph is None:
            return False
        self._graphs[arm, launches] = graph
        self._restore()
        graph.replay()  # the first replay uploads the graph
        torch.cuda.synchronize()
        return True

    def _prepare(self, arm: int, launches: int) -> None:
        """Have the graph of an arm that was not sampled before: of many arms most are not, until samples are long."""
        missing = self.plan.method == "graph" and (arm, launches) not in self._graphs
        if missing and not self._capture(arm, launches):
            raise UnmeasurableError("the launch of one config can be captured, and that of another one cannot")

    def _captured(self, arm: int, launches: int, *, apart: bool) -> torch.cuda.CUDAGraph | None:
        """Return the graph of launches on the ring, or None where they cannot be captured.

        Each launch writes output buffers of its own where they are to be `apart`.
        """
        for made in self._sets:
            _forget_gradients(made)  # they lie in the pool, and would put this arm's outputs elsewhere
        graph = torch.cuda.CUDAGraph()
        kept = deque[Any](maxlen=launches if apart else 0)
        try:
            with self._arms[arm](), capturing(graph):
                kept.extend(self._call(arm, self._sets[index % len(self._sets)]) for index in range(launches))
        except RuntimeError:
            torch.cuda.synchronize()
            return None
        del kept
        return graph

    def _call(self, arm: int, made: InputSet) -> Any:
        _forget_gradients(made)  # production accumulates into them; each launch must begin alike
        return made.launch(*self._arguments[arm])

    def _warm_up(self, arm: int, made: InputSet) -> None:
        """Launch, and raise UnmeasurableError where the host waits for the device.

        It may wait the first time, to compile and while libraries set themselves up.
        """
        reason = ""
        for mode in ("error", "default", "error"):
            made.inputs.restore()
            torch.cuda.synchronize()
            torch.cuda.set_sync_debug_mode(mode)
            try:
                with self._arms[arm]():
                    self._call(arm, made)
            except RuntimeError as error:
                if "synchroniz" not in str(error):
                    raise
                reason = str(error).splitlines()[0]
            else:
                if mode == "error":
                    return
            finally:
                torch.cuda.set_sync_debug_mode("default")
                torch.cuda.synchronize()
        raise UnmeasurableError(f"host sync: the launch waits for the device ({reason})")

    def _rough_time_us(self, *, mutates: bool) -> float:
        """Return the time of a launch of the first arm to within what a handful of them shows.

        A graph tells it without the host's share, which is the larger part of short launches.
        """
        first, repeats = self._sets[0], 1 if mutates else _ROUGH_LAUNCHES
        graph = self._captured(0, repeats, apart=False)
        best = math.inf
        for _ in range(3):
            first.inputs.restore()
            torch.cuda.synchronize()
            begin, end = _interval()
            _spin(_LONG_SPIN_CYCLES if graph is None else _HEAD_START_CYCLES)
            begin.record()
            if graph is not None:
                graph.replay()
            else:
                with self._arms[0]():
                    for _ in range(repeats):
                        self._call(0, first)
            end.record()
            torch.cuda.synchronize()
            best = min(best, begin.elapsed_time(end) * 1e3)
        return max((best - self._ruler.empty_us) / repeats, _LEAST_TIME_US)


def _forget_gradients(made: InputSet) -> None:
    for item in made.inputs.tensors:
        if item.requires_grad:
            item.tensor.grad = None


def _memories(sets: Sequence[InputSet]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return the memory of all inputs as bytes, and what it held when they were made."""
    memories = [memory for made in sets for memory in made.inputs.memories]
    return [memory.live for memory in memories], [memory.pristine for memory in memories]


def _flush_buffer() -> torch.Tensor:
    return torch.empty(L2_FACTOR * l2_bytes(), dtype=torch.uint8, device="cuda")


def _input_bytes(inputs: SeededInputs) -> int:
    return sum(item.pristine.numel() * item.pristine.element_size() for item in inputs.tensors)


def _spin(cycles: int) -> None:
    """Queue torch's own bounded spin kernel."""
    torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]  # noqa: SLF001 - there is no public name


def _interval() -> tuple[torch.cuda.Event, torch.cuda.Event]:
    """Return two events that can be timed against each other."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    return begin, end
