"""What all tests share."""

import signal
from typing import Any

import pytest
from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("kernelqual", deadline=None, max_examples=60)
settings.load_profile("kernelqual")

# A shell that starts jobs in the background lets them ignore Ctrl-C, and so would every pytest that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Each takes tens of seconds; begun last, one of them would be waited for alone.
_LONG = (
    "test_bank.py::test_outcomes",
    "test_report_hostile.py::test_every_format",
    "test_committed_hostile.py::test_rows_of_any_kind",
    "test_repro_command.py::",
    "test_compile_farm.py::",
    "test_target_compilers.py::",
    "test_rows_elsewhere.py::",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests first that take long, whatever the order of the others."""
    items.sort(key=lambda item: not any(name in item.nodeid for name in _LONG))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let idle workers take what others have not begun: some tests take a minute, most a second."""
    from xdist.scheduler import WorkStealingScheduling  # noqa: PLC0415 - only where it is installed

    return WorkStealingScheduling(config, log)
