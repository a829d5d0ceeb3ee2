"""Rows of committed configs for the tests of pages."""

from typing import Any

from pytest_kernelqual.model.record import CommittedRecord, GateRecord


def gate(**more: Any) -> GateRecord:
    """Return a comparison with the fixed launch."""
    given: dict[str, Any] = {
        "gate": "not_slower_than_fixed",
        "a": "fixed",
        "b": "num_warps=4",
        "margin_pct": 2.0,
        "verdict": "ok",
        "ratio": [0.8, 0.78, 0.82],
        "processes": [0.8],
        "time_us": [10.0, 8.0],
        "method": "graph",
        "cache": "cold",
        "ring": 4,
        "launches": 20,
        "rounds": [[10.0, 8.0, 8.1, 10.1], [10.1, 8.0, 8.0, 10.0]],
    }
    return GateRecord(**{**given, **more})


def row(device: str = "nvidia_h200", **more: Any) -> CommittedRecord:
    """Return a row of a committed file."""
    given: dict[str, Any] = {
        "key": {"cols": 515},
        "config": {"num_warps": 4},
        "evidence": "identical_bytes",
        "verdict": "ok",
        "gates": [gate()],
        "speed_up": 1.25,
        "passed": True,
    }
    return CommittedRecord(device=device, **{**given, **more})
