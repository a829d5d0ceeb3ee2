"""Whether the run has the device that it needs, asked before anything is run."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pytest_kernelqual.errors import DeviceProcessError, KernelqualError, SettingsError
from pytest_kernelqual.hooks.options import read_settings, report_path
from pytest_kernelqual.hooks.run import Run


def auto_workers(config: pytest.Config) -> int | None:
    """Return how many devices there are; None where there is none to count, or somebody else says how many workers."""
    makers = config.hook.pytest_xdist_auto_num_workers.get_hookimpls()
    theirs = any(maker.function.__module__ not in ("pytest_kernelqual.plugin", "xdist.plugin") for maker in makers)
    if theirs or "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    try:
        run = Run(read_settings(config), report_path(config), worker="main", default_paths=False, journals=False)
        try:
            return None if run.settings.device == "interpreter" else look_for_device(run) or None
        finally:
            run.close()
    except KernelqualError:  # told where the run begins
        return None


@contextmanager
def usage_errors() -> Iterator[None]:
    """Make errors of ours errors of usage, which end the run before it begins."""
    try:
        yield
    except DeviceProcessError as death:
        raise pytest.UsageError(f"--kernelqual: the device process did not start: {death.cause}\n{death.log}") from None
    except KernelqualError as error:
        raise pytest.UsageError(f"--kernelqual: {error}") from None


def look_for_device(run: Run) -> int:
    """Return how many devices workers could share; 0 where kernels are interpreted.

    Raises:
        KernelqualError: A device is asked for and missing.
    """
    hello = run.device.hello()
    if hello.kind != "interpreter":
        return 1 if ":" in run.settings.device else len(hello.devices)
    if run.settings.update:
        raise SettingsError(
            "--kernelqual-update measures on a device, and this run has none (the Triton interpreter runs the "
            "kernels): nothing would be measured; run it where a GPU is, or leave the option out"
        )
    return 0
