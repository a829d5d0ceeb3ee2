"""The seam between whoever asks for qualification and whatever runs the kernels."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from pytest_kernelqual.model.messages import Hello, Progress, Reply, Request

STARTING = "start"
"""The phase of a `DeviceProcessError` before any request was taken."""

OnProgress = Callable[[Progress], None]


class Limits(NamedTuple):
    """Seconds that one phase may take before its device process is ended."""

    inputs_s: float
    compile_s: float
    run_s: float

    def of(self, phase: str) -> float:
        """Return the limit of a phase; comparing is our own work and gets as long as building inputs."""
        return {"compile": self.compile_s, "run": self.run_s}.get(phase, self.inputs_s)


class Device(Protocol):
    """Something that answers requests, and may be asked again after a `DeviceProcessError`: it ended or was ended."""

    @property
    def lost(self) -> bool:
        """Tell whether it could not be started when it was last tried."""

    @property
    def last_error(self) -> BaseException | None:
        """Return what the last builder or launch raised, where its frames are at hand."""

    def begin(self) -> None:
        """Start if need be, and do not wait until it is ready."""

    def hello(self) -> Hello:
        """Start if need be, and return what it runs on; SettingsError when the asked device is not there."""

    def ask(self, request: Request, limits: Limits, on_progress: OnProgress | None = None) -> Reply:
        """Send a request and return the reply; starts again what ended before."""

    def log(self) -> str:
        """Return the last output of the process, and forget it."""

    def close(self) -> None:
        """End the process."""
