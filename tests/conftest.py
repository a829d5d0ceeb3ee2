"""What all tests share."""

import signal
from typing import Any

import pytest
from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("kernelqual", deadline=None)
settings.load_profile("kernelqual")

# A shell that starts jobs in the background lets them ignore Ctrl-C, and so would every pytest that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let idle workers take what others have not begun: some tests take a minute, most a second."""
    from xdist.scheduler import WorkStealingScheduling  # noqa: PLC0415 - only where it is installed

    return WorkStealingScheduling(config, log)
