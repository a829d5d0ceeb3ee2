"""Hooks that users may implement in a conftest.py or plugin."""

from typing import Any

import pytest


def pytest_kernelqual_case_finished(config: pytest.Config, nodeid: str, case: dict[str, Any]) -> None:
    """Hear of a finished case, where the report is put together (under xdist: on the controller).

    Args:
        config: The session's config.
        nodeid: Of the item.
        case: The case as in `qualified-configurations.json`.
    """


def pytest_kernelqual_report(config: pytest.Config, report: dict[str, Any]) -> None:
    """Hear of the finished report, after it was written.

    Args:
        config: The session's config.
        report: The content of `qualified-configurations.json`.
    """
