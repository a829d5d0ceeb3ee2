"""Choose the device before triton is imported, and describe it."""

import os
import platform
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Literal, NamedTuple

import torch
from msgspec import structs

from pytest_kernelqual.errors import SettingsError
from pytest_kernelqual.model.profiles import NORMAL
from pytest_kernelqual.model.record import DeviceDescriptor, Environment
from pytest_kernelqual.model.settings import Settings

Kind = Literal["cuda", "hip", "interpreter"]


class Device(NamedTuple):
    """What kernels run on."""

    kind: Kind
    torch_device: torch.device
    target: str = ""
    """A compile target: nothing is launched, and tensors are the CPU's; empty for a real device."""

    @property
    def interpreted(self) -> bool:
        """Tell whether the Triton interpreter runs the kernels, on the CPU."""
        return self.kind == "interpreter"

    def synchronize(self) -> None:
        """Wait for the device; raises what a kernel did to it."""
        if self.torch_device.type == "cuda":
            torch.cuda.synchronize(self.torch_device)

    def release_memory(self) -> None:
        """Hand cached blocks back to the device, after it ran out of memory."""
        if self.torch_device.type == "cuda":
            torch.cuda.empty_cache()


def choose(settings: Settings) -> Device:
    """Pick the device that the settings ask for and make triton use it; SettingsError when there is none.

    `auto` takes a GPU when one is there and the environment does not ask for the interpreter.
    """
    wanted, _, index = settings.device.partition(":")
    if wanted == "target":
        _set_interpreter(on=False)
        return Device("hip" if index.startswith("hip") else "cuda", torch.device("cpu"), index)
    here = _gpu_kind()
    asked_for_interpreter = os.environ.get("TRITON_INTERPRET") == "1"
    if wanted == "auto":
        wanted = here if here is not None and not asked_for_interpreter else "interpreter"
    if wanted == "interpreter":
        _set_interpreter(on=True)
        return Device("interpreter", torch.device("cpu"))
    if here != wanted:
        found = f"a {here} device" if here else "no GPU"
        raise SettingsError(
            f"device {settings.device!r} was asked for and torch {torch.__version__} sees {found}; "
            "use --kernelqual-device=auto or interpreter, or run where the device is"
        )
    count = torch.cuda.device_count()
    number = int(index) if index and settings.visible_device is None else 0
    if number >= count:
        raise SettingsError(
            f"device {settings.device!r} was asked for and there are {count}: use an index below {count}"
        )
    _set_interpreter(on=False)
    device = torch.device("cuda", number)
    return Device("hip" if here == "hip" else "cuda", device)


def visible_devices() -> list[str]:
    """Return what to put into the visibility variable for each device, without touching one."""
    if _gpu_kind() is None:
        return []
    named = [item.strip() for item in os.environ.get(visibility_variable(), "").split(",") if item.strip()]
    return named or [str(index) for index in range(torch.cuda.device_count())]


def visibility_variable() -> str:
    """Return the environment variable by which this torch's runtime is shown only some devices."""
    return "HIP_VISIBLE_DEVICES" if torch.version.hip else "CUDA_VISIBLE_DEVICES"


def read_environment(device: Device, settings: Settings, *, seeds: int, repeats: int) -> Environment:
    """Return the device descriptor and versions; touches the device."""
    return Environment(
        device=_descriptor(device),
        driver=_driver(device),
        runtime=_runtime(device),
        torch=str(torch.__version__),
        triton=_version("triton", "pytorch-triton-rocm", "pytorch-triton"),
        python=platform.python_version(),
        kernelqual=_version("pytest-kernelqual"),
        seed=settings.seed,
        seeds=seeds,
        repeats=repeats,
        profiles=[name for name, _ in map(structs.astuple, settings.input_sets(device.kind)) if name != NORMAL],
    )


def _gpu_kind() -> Literal["cuda", "hip"] | None:
    # The NVML based check neither creates a context nor initialises the driver.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    if not torch.cuda.is_available():
        return None
    return "hip" if torch.version.hip else "cuda"


def _set_interpreter(*, on: bool) -> None:
    if "triton" in sys.modules and (os.environ.get("TRITON_INTERPRET") == "1") != on:
        wanted = "the interpreter" if on else "a GPU"
        raise SettingsError(f"triton was imported before the tool could choose {wanted}; set TRITON_INTERPRET yourself")
    if on:
        os.environ["TRITON_INTERPRET"] = "1"
    else:
        os.environ.pop("TRITON_INTERPRET", None)


def _descriptor(device: Device) -> DeviceDescriptor:
    if device.interpreted:
        return DeviceDescriptor(kind="interpreter", name="Triton interpreter", architecture=platform.machine())
    properties = torch.cuda.get_device_properties(device.torch_device)
    architecture = (
        properties.gcnArchName.split(":")[0] if device.kind == "hip" else f"sm_{properties.major}{properties.minor}"
    )
    return DeviceDescriptor(
        kind=device.kind,
        name=properties.name,
        architecture=architecture,
        compute_units=properties.multi_processor_count,
        memory_bytes=properties.total_memory,
        uuid=str(getattr(properties, "uuid", "")),
    )


def _driver(device: Device) -> str:
    if device.kind != "cuda":
        return ""
    return _attempt(_nvml_driver)


def _nvml_driver() -> str:
    import pynvml  # noqa: PLC0415 - optional, extra `nvidia`

    pynvml.nvmlInit()
    try:
        return str(pynvml.nvmlSystemGetDriverVersion())
    finally:
        pynvml.nvmlShutdown()


def _runtime(device: Device) -> str:
    if device.interpreted:
        return ""
    return f"hip {torch.version.hip}" if device.kind == "hip" else f"cuda {torch.version.cuda}"


def _attempt(read: Callable[[], str]) -> str:
    """Provenance that cannot be read is left empty: it decides nothing."""
    try:
        return read()
    except Exception:  # noqa: BLE001 - whatever an optional library raises
        return ""


def _version(*distributions: str) -> str:
    for name in distributions:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return ""
