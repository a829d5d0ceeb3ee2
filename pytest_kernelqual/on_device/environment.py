"""Choose the device before triton is imported, and describe it."""

import os
import platform
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from itertools import takewhile
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
    too_high = _hide_others(settings)
    here = _gpu_kind()
    if settings.device_uuid and here is None:
        raise SettingsError(_gone(settings, "no GPU"))
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
    if too_high:
        raise SettingsError(too_high)
    _set_interpreter(on=False)
    return Device("hip" if here == "hip" else "cuda", torch.device("cuda", 0))


def check_same(device: Device, settings: Settings) -> None:
    """Make sure that a process that takes another's place has its device; SettingsError when that has gone.

    Indices move up when a device falls off the bus, and every lock and record is of the device of before.
    """
    if not settings.device_uuid or device.target:
        return
    found = _descriptor(device).uuid
    if found != settings.device_uuid:
        raise SettingsError(_gone(settings, f"device {found}"))


def show_from_outside(devices: list[str]) -> str:
    """Return the device that must be shown by the environment from the start; empty where hiding the others worked.

    Some runtimes had to be initialised to count `devices`, and look at the environment once.
    """
    shown = os.environ.get(visibility_variable(), "")
    return shown if len(devices) > 1 and shown in devices and torch.cuda.device_count() > 1 else ""


def _hide_others(settings: Settings) -> str:
    """Hide all devices but the one asked for by its index, or the one that falls to a worker; say what is wrong.

    Builders and libraries that take "the" device, in whatever thread, then take this one.
    """
    _, _, index = settings.device.partition(":")
    devices = visible_devices()
    if not devices or settings.visible_device is not None or (not index and settings.slot is None):
        return ""
    number = int(index) if index else (settings.slot or 0) % len(devices)
    if number >= len(devices):
        there = len(devices)
        return f"device {settings.device!r} was asked for and there are {there}: use an index below {there}"
    os.environ[visibility_variable()] = devices[number]
    return ""


def _gone(settings: Settings, found: str) -> str:
    return (
        f"the device {settings.device_uuid} that this process used is gone: in its place there is {found}; "
        "see the system's log for why, and run again"
    )


def visible_devices() -> list[str]:
    """Return what to put into the visibility variable for each device, without touching one."""
    given = os.environ.get(visibility_variable())
    named = [item.strip() for item in given.split(",")] if given is not None else []
    if named and named[0].startswith("MIG-"):
        # The runtime shows a process one instance, whatever more are named; other processes may have the others.
        return list(takewhile(lambda name: name.startswith("MIG-"), named))
    count = torch.cuda.device_count() if _gpu_kind() is not None else 0
    # What follows a name that is no device is not visible either.
    return named[:count] if given is not None else [str(index) for index in range(count)]


def visibility_variable() -> str:
    """Return the environment variable by which this torch's runtime is shown only some devices."""
    if torch.version.hip is None:
        return "CUDA_VISIBLE_DEVICES"
    told = [name for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES") if name in os.environ]
    # ROCR_VISIBLE_DEVICES is read below HIP, which then counts from 0 again.
    return told[0] if told and "ROCR_VISIBLE_DEVICES" not in os.environ else "HIP_VISIBLE_DEVICES"


def read_environment(device: Device, settings: Settings, *, seeds: int, repeats: int) -> Environment:
    """Return the device descriptor and versions; touches the device."""
    descriptor = _descriptor(device)
    return Environment(
        device=descriptor,
        devices=[descriptor.uuid] if descriptor.uuid else [],
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
