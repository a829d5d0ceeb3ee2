"""Compile for targets, and hold what the code takes against their limits."""

from collections.abc import Mapping, Sequence

from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend
from triton.runtime.driver import driver
from triton.runtime.errors import OutOfResources

from pytest_kernelqual.errors import SettingsError
from pytest_kernelqual.launch.fake_driver import FakeDriver
from pytest_kernelqual.launch.target_host import answer_for, driver_properties, lockstep_threads
from pytest_kernelqual.model.targets import Target


def must_fit(target: Target, resources: Mapping[str, int]) -> None:
    """Raise triton's OutOfResources where a launch would, with the same figures and in the same order."""
    for kind, name, limit in (
        ("shared memory", "shared_bytes", target.shared_bytes),
        ("tensor memory", "tensor_columns", target.tensor_columns),
        ("threads", "threads", target.threads),
    ):
        required = resources.get(name, 0)
        if required > limit:
            raise OutOfResources(required, limit, kind)


def grid_problem(target: Target, grid: Sequence[int] | None) -> str:
    """Return why the driver would refuse a grid, as it does once the code is loaded; empty where it would not."""
    if grid is None or 0 in grid:  # with nothing to do, Triton does not ask the driver
        return ""
    for axis, programs, most in zip("xyz", grid, target.most_programs, strict=False):
        if programs > most:
            return f"invalid argument: {programs} programs along {axis} of the grid, limit {most}"
    return ""


def activate(target: Target) -> None:
    """Let Triton and production see a device of this target in this process from now on; nothing can be launched.

    Raises:
        SettingsError: The installed triton does not compile for it.
    """
    backend, architecture = target.name.split(":")
    if backend == "cuda":
        gpu = GPUTarget("cuda", int(architecture), 32)
    else:
        gpu = GPUTarget("hip", architecture, lockstep_threads(target))
    try:
        make_backend(gpu)
    except Exception as error:
        raise SettingsError(f"the installed triton does not compile for {target.name}: {error}") from error
    driver.set_active(FakeDriver(gpu, driver_properties(target)))
    answer_for(target)
