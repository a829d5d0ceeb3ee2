"""A device process on a GPU that is not there, for whole runs: load with `-p pretended_run`.

Everything is real but the device: Triton compiles for it, and its launches compute on the CPU.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import structs

from pytest_kernelqual.model.messages import Hello, Reply
from pytest_kernelqual.model.record import DeviceDescriptor, Environment
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.on_device import main as device_main
from pytest_kernelqual.processes import device_process


def pytest_configure() -> None:
    """Have device processes run this module."""
    here = str(Path(__file__).parent)
    device_process._BOOTSTRAP = (
        f"import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); sys.path.insert(0, {here!r}); "
        "import pretended_run; pretended_run.main()"
    )


def main() -> None:
    """Run the device process with the pretended device."""
    device_main.prepare = _prepare
    device_main.main()


def _prepare(settings: Settings, send: Callable[[Reply], None]) -> tuple[Any, Hello]:
    import torch  # noqa: PLC0415 - the pytest process loads this module too, and stays light
    from pretended_device import PretendedDevice, PretendedDriver  # noqa: PLC0415 - as above
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415 - as above
    from triton.runtime.driver import driver  # noqa: PLC0415 - as above

    from pytest_kernelqual.on_device import server  # noqa: PLC0415 - as above

    driver.set_active(PretendedDriver(GPUTarget("cuda", 90, 32)))
    server.read_environment = _read_environment
    settings = structs.replace(settings, provocation=False)  # there is no driver
    return server.Server(settings, PretendedDevice("cuda", torch.device("cpu")), send), Hello(kind="cuda")


def _read_environment(_device: object, settings: Settings, *, seeds: int, repeats: int) -> Environment:
    descriptor = DeviceDescriptor(kind="cuda", name="pretended", architecture="sm_90")
    return Environment(device=descriptor, seed=settings.seed, seeds=seeds, repeats=repeats)
