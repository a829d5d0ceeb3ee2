"""pytest-benchmark: samples of gates as entries of its table and JSON, where that plugin is there."""

import copy
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

import pytest

from pytest_kernelqual.hooks.run import TARGET, Run
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.record import SPEED_UP_GATES, CommittedRecord, GateRecord

# What the entry of an item keeps for those beside it: name, config and seconds of each sample.
_BESIDE = "kernelqual_beside"


class SampleClock:
    """A timer that replays measured seconds: it reads 0 at the start of each round, and the sample at its end."""

    __name__ = "device_events"
    __module__ = "pytest_kernelqual"

    def __init__(self) -> None:
        """Hold no samples yet."""
        self._readings: Iterator[float] = iter(())

    def load(self, samples_s: Sequence[float]) -> None:
        """Take the samples of one entry."""
        self._readings = iter([reading for sample in samples_s for reading in (0.0, sample)])

    def __call__(self) -> float:
        """Return the next reading."""
        return next(self._readings)


class Benchmarks:
    """Hooks that hand gates to pytest-benchmark."""

    def __init__(self, config: pytest.Config, run: Run) -> None:
        """Keep the run."""
        self._config = config
        self._run = run
        self._compared: list[dict[str, str]] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Give each item about a committed config a clock of its own."""
        if _session(self._config) is None:
            return
        for item in items:
            target = item.stash.get(TARGET, None)
            if target is not None and target.row is not None:
                theirs = item.get_closest_marker("benchmark")
                options = {"group": target.declared.spec.name, **(theirs.kwargs if theirs is not None else {})}
                # The closest mark is the one that counts, and that is the first.
                item.add_marker(pytest.mark.benchmark(**{**options, "timer": SampleClock()}), append=False)

    def publish(self, request: pytest.FixtureRequest, record: CommittedRecord) -> None:
        """Make an entry of what was sampled: of the committed config, or of the fixed launch where that was kept."""
        session = _session(self._config)
        marker = request.node.get_closest_marker("benchmark")
        judged = _judged(record)
        # Asking for the fixture would skip the item under --benchmark-skip.
        if session is None or marker is None or judged is None or session.skip or session.disabled:
            return
        clock = marker.kwargs.get("timer")
        if not isinstance(clock, SampleClock):  # a mark that was added after all: it is no reason to fail a gate
            return
        benchmark: Any = request.getfixturevalue("benchmark")
        own = Config(record.config).id if record.config is not None else "fixed"
        fixed_s, arm_s = _arms(judged)
        benchmark.params = record.key
        benchmark.extra_info.update(
            config=own,
            verdict=record.verdict,
            ratio=judged.ratio,
            method=judged.method,
            cache=judged.cache,
            launches=judged.launches,
        )
        beside = [("fixed", "fixed", fixed_s)] if record.config is not None else []
        for near in (gate for gate in record.gates if gate.gate == "near_best" and gate.rounds):
            best_s, own_s = _arms(near)
            beside += [("near_best, best", near.a, best_s), ("near_best", own, own_s)]
        benchmark.extra_info[_BESIDE] = beside
        clock.load(arm_s)
        benchmark.pedantic(_nothing, rounds=len(arm_s))

    @pytest.hookimpl(optionalhook=True)
    def pytest_benchmark_update_json(self, output_json: dict[str, Any]) -> None:
        """Add the other arms of each gate as entries beside that of its committed config."""
        for entry in list(output_json["benchmarks"]):
            # The dict is that of all files which a run writes.
            entry["extra_info"] = dict(entry["extra_info"])
            arms = entry["extra_info"].pop(_BESIDE, [])
            output_json["benchmarks"] += [_beside(entry, *arm) for arm in arms]

    @pytest.hookimpl(optionalhook=True)
    def pytest_benchmark_update_machine_info(self, machine_info: dict[str, Any]) -> None:
        """Tell the device: timed on another one, entries cannot be compared."""
        gpu = self._gpu()
        if gpu:
            machine_info["gpu"] = gpu

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_benchmark_compare_machine_info(
        self, machine_info: dict[str, Any], compared_benchmark: dict[str, Any]
    ) -> None:
        """Leave the device out of what is compared so early, when that of this run is not known; the summary tells."""
        theirs = compared_benchmark["machine_info"].get("gpu")
        machine_info.pop("gpu", None)
        if theirs is not None:
            machine_info["gpu"] = theirs
            self._compared.append(theirs)

    def _gpu(self) -> dict[str, str]:
        environment = self._run.known_environment
        if environment is None:
            return {}
        device = environment.device
        return {"name": device.name, "architecture": device.architecture, "driver": environment.driver}

    def told(self, rows: Iterable[CommittedRecord]) -> str:
        """Return what is to be known of the entries of rows that were timed, or where they are."""
        if not any(map(_judged, rows)):
            return ""
        gpu = self._gpu()
        others = [f"saved {theirs}, now {gpu}" for theirs in self._compared if theirs != gpu]
        compared = f"pytest-benchmark compares with entries of another GPU or driver: {others[0]}" if others else ""
        return self._switched_off() or compared

    def _switched_off(self) -> str:
        """Return that pytest-benchmark has no entries, where xdist switched it off."""
        session = _session(self._config)
        spread = self._config.pluginmanager.hasplugin("dsession")
        # Some versions do not tell whether it was xdist; then it was nothing else that anybody asked for.
        off = session is not None and getattr(session, "xdist_warning", True)
        if not spread or not off:
            return ""
        return (
            "pytest-benchmark switches itself off under pytest-xdist; gates were timed all the same, "
            "and the report holds their samples"
        )


def _session(config: pytest.Config) -> Any:
    """Return pytest-benchmark's own state, or None where the plugin is not there."""
    return getattr(config, "_benchmarksession", None)


def _judged(record: CommittedRecord) -> GateRecord | None:
    """Return what was timed against the fixed launch, by an update too, or the control where that was kept."""
    wanted = SPEED_UP_GATES if record.config is not None else ("control",)
    return next((gate for gate in record.gates if gate.gate in wanted and gate.rounds), None)


def _arms(gate: GateRecord) -> tuple[list[float], list[float]]:
    """Return the samples of A and of B, in seconds."""
    first, second = ([abba[place] * 1e-6 for abba in gate.rounds for place in pair] for pair in ((0, 3), (1, 2)))
    return first, second


def _beside(entry: dict[str, Any], name: str, config: str, samples_s: list[float]) -> dict[str, Any]:
    """Return the entry of another arm, made of that of the committed config."""
    # Only that plugin calls for this, so that it is there.
    stats: Any = import_module("pytest_benchmark.stats").Stats()
    for sample in samples_s:
        stats.update(sample)
    found = copy.deepcopy(entry)
    found["name"] += f" {name}"
    found["fullname"] += f" {name}"
    found["extra_info"]["config"] = config
    data = {"data": samples_s} if "data" in entry["stats"] else {}
    found["stats"] = {**stats.as_dict(), **data, "iterations": entry["stats"]["iterations"]}
    return found


def _nothing() -> None:
    """Stand for what was launched long ago."""
