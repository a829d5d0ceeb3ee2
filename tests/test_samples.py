"""One sample of launches that cannot be captured, on a device that is not there."""

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pytest_kernelqual.errors import UnmeasurableError
from pytest_kernelqual.on_device import timing
from pytest_kernelqual.on_device.timing import Comparison, InputSet, Plan

LAUNCHES = 2


class Told:
    """A comparison of an in-place kernel, and what happened in which order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, late: Callable[[], bool]) -> None:
        """Have events and spins that take no device; `late` tells whether it came to a sample before the host."""
        self.happened: list[str] = []
        self.spins: list[int] = []
        event = SimpleNamespace(record=lambda: self.happened.append("event"), query=late)
        monkeypatch.setattr(timing, "_interval", lambda: (event, event))
        monkeypatch.setattr(timing, "_spin", self.spins.append)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: self.happened.append("wait"))
        self.comparison = Comparison.__new__(Comparison)
        sets = [torch.tensor([1.0, 2.0]) for _ in range(LAUNCHES)]
        flush = SimpleNamespace(zero_=lambda: self.happened.append("flush"))
        made: dict[str, Any] = {
            "_arms": [nullcontext],
            "_arguments": [()],
            "_sets": [InputSet(SimpleNamespace(tensors=[]), lambda x=x: self.launch(x)) for x in sets],  # type: ignore[arg-type]
            "_mutates": True,
            "_live": sets,
            "_pristine": [x.clone() for x in sets],
            "_flush": flush,
            "_spin_cycles": 10,
            "_graphs": {},
            "_apart": True,
            "plan": Plan("events", "cold", LAUNCHES, LAUNCHES, 8, restored=True),
        }
        for name, value in made.items():
            setattr(self.comparison, name, value)

    def launch(self, x: torch.Tensor) -> None:
        """Tell what it finds, and double it."""
        self.happened.append(f"launch on {x.tolist()}")
        x.mul_(2)


ONE = ["flush", "wait", "event", *["launch on [1.0, 2.0]"] * LAUNCHES, "event"]


def test_a_sample_that_is_taken_again_finds_what_the_first_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs restored and the cache emptied, behind longer spins."""
    late = iter([True, True, False])
    told = Told(monkeypatch, lambda: next(late))
    assert not told.comparison._sample(0, LAUNCHES).late
    assert told.happened == ONE * 3
    assert told.spins == [10, 40, 160]


def test_a_graph_is_first_replayed_on_inputs_as_they_were_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of other arms have changed them; a launch may follow indices in them."""
    told = Told(monkeypatch, lambda: False)
    told.comparison._sample(0, LAUNCHES)
    told.happened.clear()
    made = told.comparison._sets
    graph = SimpleNamespace(replay=lambda: [one.launch() for one in made])
    monkeypatch.setattr(Comparison, "_captured", lambda *_arms, **_how: graph)
    assert told.comparison._capture(0, LAUNCHES)
    assert told.happened == [*["launch on [1.0, 2.0]"] * LAUNCHES, "wait"]


def test_a_host_that_never_keeps_up_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spins are bounded."""
    told = Told(monkeypatch, lambda: True)
    with pytest.raises(UnmeasurableError, match="host too slow"):
        told.comparison._sample(0, LAUNCHES)
    assert told.spins[-1] <= timing._MOST_SPIN_CYCLES


@pytest.mark.parametrize(
    ("plan", "flushed", "launches"),
    [
        (Plan("graph", "cold", 40, 64, 8, restored=False), False, 40),  # the sets put each other out of the cache
        (Plan("graph", "cold", 64, 64, 8, restored=False), True, 16),
        (Plan("graph", "warm", 64, 64, 8, restored=True), False, 16),
        (Plan("graph", "warm", 1, 64, 8, restored=False), False, 16),
    ],
)
def test_rough_samples_are_shorter(plan: Plan, flushed: bool, launches: int) -> None:  # noqa: FBT001 - a case
    """Unless that would leave sets in the cache which should not be there."""
    comparison = Comparison.__new__(Comparison)
    comparison.plan, comparison._flush = plan, torch.empty(1) if flushed else None
    assert comparison._rough_launches() == launches
