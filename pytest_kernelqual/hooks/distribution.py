"""pytest-xdist: give each worker its place, by which it takes a device, and hand out items."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pytest

from pytest_kernelqual.hooks.device_check import look_for_device, usage_errors
from pytest_kernelqual.hooks.run import Run, controls_workers
from pytest_kernelqual.hooks.scheduling import Scheduling, Unit, durations, units
from pytest_kernelqual.report.phrases import counted


class Distribution:
    """Hooks of xdist's controller."""

    def __init__(self, config: pytest.Config, run: Run) -> None:
        """Keep the run."""
        self._config = config
        self._run = run
        self._slots: dict[str, int] = {}
        self._scheduling: Scheduling | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give a new worker the first free place: a replacement gets that of the one that died, and so its device."""
        node.workerinput["kernelqual_default_paths"] = self._run.default_paths
        taken = set(self._slots.values())
        slot = next(number for number in count() if number not in taken)
        self._slots[node.gateway.id] = node.workerinput["kernelqual_slot"] = slot

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """Take back the place of a worker that ended."""
        del error
        self._slots.pop(node.gateway.id, None)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Scheduling | None:
        """Hand out items our way, unless another one was chosen by --dist, or a plugin or conftest.py has its own."""
        del log
        theirs = config.pluginmanager.getplugin("dsession")
        makers = {implementation.plugin for implementation in config.hook.pytest_xdist_make_scheduler.get_hookimpls()}
        if config.getoption("dist") != "load" or makers - {self, theirs}:
            return None
        budget = self._run.settings.budget_s is not None
        self._scheduling = Scheduling(config, len(self._slots), self._units, sorted_rows=budget)
        return self._scheduling

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Give no more items to a worker whose device has gone: it would fail them faster than others run them."""
        if self._scheduling is not None and getattr(report, "kernelqual_lost_device", False):
            self._scheduling.retire(getattr(report, "node", None))

    def _units(self, nodeids: Sequence[str]) -> list[Unit]:
        """Return what is handed out together, in the order of the collection where the user asked for one."""
        made = units(nodeids, self._run.plan, durations(self._run.report))
        ordered = any(self._config.getoption(name, default=False) for name in ("failedfirst", "newfirst"))
        return sorted(made, key=lambda unit: min([*unit.cases, *unit.rows])) if ordered else made

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Iterator[Any]:
        """Hear what this process found of devices, and tell how they are shared, while the workers start."""
        settings = self._run.settings
        if controls_workers(self._config) and (settings.device != "interpreter" or settings.update):
            with usage_errors():
                devices = look_for_device(self._run)
            self._run.restart()  # workers own the devices
            reporter = self._config.pluginmanager.getplugin("terminalreporter")
            if reporter is not None and devices:
                reporter.write_line(f"kernelqual: {_shared(len(self._slots), devices)}")
        return (yield)


def _shared(workers: int, devices: int) -> str:
    """Say how many devices workers use."""
    told = f"{counted(workers, 'worker')} on {counted(min(workers, devices), 'device')}"
    idle = devices - workers
    return f"{told}, {idle} of {devices} idle: -n {devices} uses all" if idle > 0 else told
