"""pytest-xdist: hand devices to workers."""

from collections import Counter
from typing import Any

import pytest

from pytest_kernelqual.hooks.run import Run


class Distribution:
    """Hooks of xdist's controller."""

    def __init__(self, run: Run) -> None:
        """Keep the run; devices are looked for when the first worker starts."""
        self._run = run
        self._devices: list[str] | None = None
        self._given: dict[str, str] = {}

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a new worker its device: the least used, so that a replacement gets the device of the one that died."""
        node.workerinput["kernelqual_default_paths"] = self._run.default_paths
        device = self._least_used()
        if device is not None:
            self._given[node.gateway.id] = device
            node.workerinput["kernelqual_device"] = device

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """Take back the device of a worker that ended."""
        del error
        self._given.pop(node.gateway.id, None)

    def _least_used(self) -> str | None:
        kind, _, index = self._run.settings.device.partition(":")
        if kind == "interpreter":
            return None
        if self._devices is None:
            devices = self._run.device.hello().devices
            self._run.close()  # workers own the devices now
            # A device that was asked for by its index is the only one that workers share.
            self._devices = devices[int(index) : int(index) + 1] if index else devices
        used = Counter(self._given.values())
        return min(self._devices, key=lambda device: used[device], default=None)
