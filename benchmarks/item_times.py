"""A pytest plugin: append when each item ran, and on which worker, to the file that ITEM_TIMES names."""

import json
import os
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Listen in the process that hears of all items."""
    path = os.environ.get("ITEM_TIMES")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Listener(Path(path)))


class _Listener:
    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write a line for an item that ran."""
        if report.when == "call":
            line = {
                "nodeid": report.nodeid,
                "worker": getattr(report, "worker_id", "main"),
                "start": report.start,
                "stop": report.stop,
            }
            with self._path.open("a") as file:
                file.write(f"{json.dumps(line)}\n")
