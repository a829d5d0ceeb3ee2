"""A pytest plugin: append when each item ran, and on which worker, to the file that ITEM_TIMES names."""

import json
import os
from pathlib import Path

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write a line for an item that ran, in the process that hears of all."""
    path = os.environ.get("ITEM_TIMES")
    if path and report.when == "call" and "PYTEST_XDIST_WORKER" not in os.environ:
        line = {
            "nodeid": report.nodeid,
            "worker": getattr(report, "worker_id", "main"),
            "start": report.start,
            "stop": report.stop,
        }
        with Path(path).open("a") as file:
            file.write(f"{json.dumps(line)}\n")
