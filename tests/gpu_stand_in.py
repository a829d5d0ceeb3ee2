"""A GPU that is not there, for tests of what needs a compiler: load with `-p gpu_stand_in`.

Kernels are specialised and compiled for cuda:90 as ever; a launch runs their Python source under Triton's interpreter,
on tensors of the CPU. The device process, its specs and everything around it are real.
"""

import os
from pathlib import Path
from typing import Any

from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.on_device import main as device_main
from pytest_kernelqual.processes import device_process

TARGET = ("cuda", 90, 32)


def pytest_configure() -> None:
    """Have device processes run this module."""
    here = str(Path(__file__).parent)
    device_process._BOOTSTRAP = (
        f"import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); sys.path.insert(0, {here!r}); "
        "import gpu_stand_in; gpu_stand_in.main()"
    )


def main() -> None:
    """Run the device process with the stand-in in place of a GPU."""
    put_in_place()
    device_main.main()


def put_in_place() -> None:
    """Make this process see the stand-in."""
    import torch  # noqa: PLC0415 - pytest's own process loads this module too, and no torch
    from launch_parts import FakeDriver, Launcher  # noqa: PLC0415
    from triton.runtime.driver import driver  # noqa: PLC0415
    from triton.runtime.interpreter import InterpretedFunction  # noqa: PLC0415

    from pytest_kernelqual.model.record import DeviceDescriptor  # noqa: PLC0415
    from pytest_kernelqual.on_device import environment  # noqa: PLC0415

    class Interpreting(Launcher):
        """Run the source of the compiled kernel."""

        def __init__(self, src: Any, metadata: Any) -> None:
            super().__init__(src, metadata)
            self.kernel = InterpretedFunction(src.fn.fn)
            if "LAUNCHERS" in os.environ:
                with Path(os.environ["LAUNCHERS"]).open("a") as log:
                    log.write(f"{os.getpid()} {' '.join(src.signature.values())}\n")

        def __call__(self, *launch: Any) -> None:
            super().__call__(*launch)
            self.kernel.run(*launch[9:], grid=launch[:3], warmup=False)

    class Driver(FakeDriver):
        launcher_cls = Interpreting

    class Device(environment.Device):
        """A device whose tensors are the CPU's."""

        def synchronize(self) -> None:
            """Wait for nothing."""

        def release_memory(self) -> None:
            """Hand nothing back."""

    driver.set_active(Driver())
    choose = environment.choose

    def chosen(settings: Settings) -> environment.Device:
        """Choose the stand-in, unless for a compile target."""
        of_target = settings.device.startswith("target:")
        return choose(settings) if of_target else Device("cuda", torch.device("cpu"))

    environment.choose = chosen
    environment.visible_devices = list
    environment._descriptor = lambda _device: DeviceDescriptor(
        kind="cuda", name="NVIDIA Stand-in", architecture="sm_90", compute_units=132
    )
    environment._driver = lambda _device: ""
