"""Ask a device process about one candidate."""

from typing import TypeVar

from pytest_kernelqual.errors import KernelqualError
from pytest_kernelqual.model.messages import Request
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.processes.device import Device, Limits

T = TypeVar("T")


def ask(device: Device, settings: Settings, request: Request, kind: type[T]) -> T:
    """Return the reply of the expected kind.

    Raises:
        KernelqualError: There is none; the message is one line.
    """
    limits = Limits(settings.start_timeout_s, settings.compile_timeout_s, settings.run_timeout_s)
    try:
        reply = device.ask(request, limits)
    except KernelqualError as error:  # a spec that cannot be imported tells its traceback below the first line
        told = str(error).partition("\n")[0].replace("--kernelqual-device=", "--device=")
        raise KernelqualError(told) from error
    if not isinstance(reply, kind):
        raise KernelqualError(f"{type(request).__name__} was answered by {type(reply).__name__}: a fault of the tool")
    return reply
