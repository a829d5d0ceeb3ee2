"""Force a config onto the launches of a Triton kernel, prove that they carried it, and name how a launch failed."""

from pytest_kernelqual.launch.dry_run import DryLaunch, DryRun, Pointer, Specialisation, dry_run, is_cached
from pytest_kernelqual.launch.failures import classify
from pytest_kernelqual.launch.fake_driver import fake_driver
from pytest_kernelqual.launch.forcing import observed, pinned
from pytest_kernelqual.launch.kernels import (
    KernelInfo,
    check_config,
    describe_kernel,
    interpreted,
    is_kernel,
    kernel_function,
)
from pytest_kernelqual.launch.program import Lasting, Look, Program, launched_code
from pytest_kernelqual.launch.proof import Launch, Launches

__all__ = [
    "DryLaunch",
    "DryRun",
    "KernelInfo",
    "Lasting",
    "Launch",
    "Launches",
    "Look",
    "Pointer",
    "Program",
    "Specialisation",
    "check_config",
    "classify",
    "describe_kernel",
    "dry_run",
    "fake_driver",
    "interpreted",
    "is_cached",
    "is_kernel",
    "kernel_function",
    "launched_code",
    "observed",
    "pinned",
]
