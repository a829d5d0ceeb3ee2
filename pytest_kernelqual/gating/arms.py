"""Arms of one case on one device: opened, lengthened and sampled, alone on the device."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from pytest_kernelqual.errors import DeviceProcessError, KernelqualError, UnmeasurableError
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import Open, Opened, Reply, Request
from pytest_kernelqual.model.outcome import Cache
from pytest_kernelqual.model.timing import OpenTiming, Sample, Sampled, TimingOpened
from pytest_kernelqual.processes.device import Device, Limits

LONGEST_SAMPLE_US = 1000.0
_CLOCK_TOLERANCE = 0.01

# Before each attempt: a clock that moved may have settled; whatever disturbs all of them stays.
_PAUSES_S = (0.0, 0.0, 0.1, 0.5)

Hold = Callable[[], AbstractContextManager[object]]
"""Holds the device while a block runs."""


class Place(NamedTuple):
    """Which case of which spec is timed, its limits, and where launches should find their inputs."""

    path: str
    spec: str
    case: str
    limits: Limits
    cache: Cache = "cold"


class Arms:
    """Arms of one case, open for timing on one device."""

    def __init__(
        self,
        device: Device,
        place: Place,
        configs: Sequence[Config | None],
        *,
        exclusive: Hold,
        shared: Hold = nullcontext,
    ) -> None:
        """Keep what to time; None is the fixed launch.

        Args:
            device: The process that times.
            place: The case.
            configs: The arms; a control needs the same one twice.
            exclusive: Holds the device alone while samples are taken.
            shared: Holds the device with others while arms are compiled and launched for the first time.
        """
        self._device = device
        self._place = place
        self._configs = list(configs)
        self._exclusive = exclusive
        self._shared = shared
        self.plan = TimingOpened()
        self.disturbed = ""
        """What kept samples from being taken, where it was not the launches: another run may have better luck."""

    def open(self, target_us: float, *, qualify: bool) -> None:
        """Get ready to take samples of about `target_us`; `qualify` opens the case first.

        Raises:
            UnmeasurableError: The launches cannot be timed.
        """
        with self._shared():
            if qualify:
                place = self._place
                opened = self._ask(Open(path=place.path, spec=place.spec, case=place.case, for_timing=True))
                if not isinstance(opened, Opened) or opened.outcome != "qualified":
                    reason = opened.reason if isinstance(opened, Opened) else type(opened).__name__
                    raise UnmeasurableError(f"the fixed launch is not usable: {reason}")
            arms = [dict(config) if config is not None else None for config in self._configs]
            self._get_ready(OpenTiming(arms=arms, target_us=target_us, cache=self._place.cache))

    def lengthen(self, target_us: float) -> None:
        """Have samples of the open arms take about `target_us`, longer than before; raises as `open` does."""
        with self._shared():
            self._get_ready(OpenTiming(arms=None, target_us=target_us))

    def open_like(self, first: "Arms", time_us: float) -> None:
        """Get ready in a fresh process to sample launches of `time_us` as the first one does; raises as `open` does."""
        # Longer ones would be more launches than a cold cache can be had for.
        self.open(min(first.plan.launches * time_us, LONGEST_SAMPLE_US), qualify=True)
        ours, theirs = ((plan.method, plan.cache) for plan in (self.plan, first.plan))
        if ours != theirs:
            raise UnmeasurableError(
                f"a fresh process times otherwise: {', '.join(ours)} in place of {', '.join(theirs)}"
            )

    def _get_ready(self, request: OpenTiming) -> None:
        reply = self._ask(request)
        if not isinstance(reply, TimingOpened):
            raise KernelqualError(f"OpenTiming was answered by {type(reply).__name__}; this is a fault of the tool")
        if reply.reason:
            raise UnmeasurableError(reply.reason)
        self.plan = reply

    def sample(self, first: int, second: int, rounds: int) -> list[list[float]]:
        """Return rounds of two arms, alone on the device; UnmeasurableError when it stays disturbed."""
        return self.sample_pairs([(first, second)], rounds)[0]

    def sample_pairs(
        self, pairs: list[tuple[int, int]], rounds: int, *, roughly: bool = False
    ) -> list[list[list[float]]]:
        """Return rounds of each pair of arms, as `sample` does; of shorter samples `roughly`."""
        disturbed = ""
        for pause_s in _PAUSES_S:
            time.sleep(pause_s)
            with self._exclusive():
                reply = self._ask(Sample(pairs=pairs, rounds=rounds, roughly=roughly))
            if not isinstance(reply, Sampled):
                raise KernelqualError(f"Sample was answered by {type(reply).__name__}; this is a fault of the tool")
            if reply.reason:
                raise UnmeasurableError(reply.reason)
            disturbed = _disturbance(reply)
            if not disturbed:
                return _checked(reply.rounds)
        self.disturbed = disturbed
        raise UnmeasurableError(disturbed)

    def _ask(self, request: Request) -> Reply:
        """Ask the device; arms that do not fit into its memory are unmeasurable, and no fault of a config."""
        try:
            return self._device.ask(request, self._place.limits)
        except DeviceProcessError:
            raise
        except KernelqualError as error:
            if "out of memory" not in str(error):
                raise
            raise UnmeasurableError("the device has not enough memory for the ring of input sets") from error

    def name(self, arm: int) -> str:
        """Return how reports call an arm."""
        config = self._configs[arm]
        return config.id if config is not None else "fixed"


def _checked(taken: list[list[list[float]]]) -> list[list[list[float]]]:
    """Return rounds of which every sample is a time; an interval that reads nothing was too short to be seen."""
    for sample in (sample for rounds in taken for abba in rounds for sample in abba):
        if not (math.isfinite(sample) and sample > 0):
            raise UnmeasurableError(f"a sample reads {sample} us, which is no time")
    return taken


def _disturbance(sampled: Sampled) -> str:
    """Say what disturbed the samples: clocks that moved, throttling, somebody else on the device."""
    if not sampled.clocks:
        return ""
    speeds = [clocks.sm_mhz for clocks in sampled.clocks]
    problems = [clocks.problem for clocks in sampled.clocks if clocks.problem]
    if problems:
        return f"the driver's library fails: {problems[0]}"
    throttled = sorted({reason for clocks in sampled.clocks for reason in clocks.throttled})
    if throttled:
        return f"the device was throttled: {', '.join(throttled)}"
    if max(clocks.foreign_processes for clocks in sampled.clocks):
        return "another process uses the device"
    if min(speeds) < max(speeds) * (1 - _CLOCK_TOLERANCE):
        return f"the clock moved from {speeds[0]} to {speeds[-1]} MHz"
    return ""
