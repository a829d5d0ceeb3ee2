"""A launch that did not end well: every exception of a builder or launch, turned into an outcome."""

from typing import Any

import torch

from pytest_kernelqual.errors import KernelqualError, UnprovedLaunchError, UnsupportedConfigError
from pytest_kernelqual.launch import classify
from pytest_kernelqual.model.outcome import Outcome, Phase
from pytest_kernelqual.on_device.environment import Device
from pytest_kernelqual.on_device.loader import user_traceback
from pytest_kernelqual.on_device.wording import first_line

# Phases in which no kernel under test runs, and whose code then does.
_USERS_OWN: dict[Phase, str] = {"inputs": "builder", "oracle": "oracle"}


class LaunchFailed(Exception):  # noqa: N818 - carries an outcome, is no error of ours
    """A launch that ended otherwise than well."""

    def __init__(self, outcome: Outcome, reason: str, detail: dict[str, Any], *, fatal: bool = False) -> None:
        """Keep the outcome.

        Args:
            outcome: What it was.
            reason: One line.
            detail: Facts, as data.
            fatal: The device is unusable in this process.
        """
        super().__init__(reason)
        self.outcome: Outcome = outcome
        self.reason = reason
        self.detail = detail
        self.fatal = fatal


def failed_launch(error: Exception, phase: Phase, device: Device) -> LaunchFailed:
    """Return what an exception means; a device that no longer answers makes it a fault."""
    failed = _named(error, phase, device)
    try:
        device.synchronize()
    except Exception as sticky:  # noqa: BLE001 - whatever the driver reports
        told = classify(sticky, "run")
        reason = told[1] if told else first_line(sticky)
        return LaunchFailed("fault", reason, {**failed.detail, "error": type(sticky).__name__}, fatal=True)
    return failed


def _named(error: Exception, phase: Phase, device: Device) -> LaunchFailed:
    if isinstance(error, UnsupportedConfigError):
        return LaunchFailed("unsupported", str(error), {})
    if isinstance(error, UnprovedLaunchError | KernelqualError):
        return LaunchFailed("not_run", str(error), {})
    traceback = {"traceback": user_traceback(error)}
    told = classify(error, phase)
    if isinstance(error, torch.OutOfMemoryError):
        device.release_memory()
    if phase in _USERS_OWN and (told is None or told[0] != "not_run"):
        return LaunchFailed(
            "not_run", f"the {_USERS_OWN[phase]} raised {type(error).__name__}: {first_line(error)}", traceback
        )
    if told is not None:
        return LaunchFailed(told[0], told[1], told[2], fatal=told[0] == "fault")
    return LaunchFailed("launch_error", f"the launch raised {type(error).__name__}: {first_line(error)}", traceback)
