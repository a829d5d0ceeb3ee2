"""Answer requests about one spec file, case and candidate at a time."""

from collections.abc import Callable

from pytest_kernelqual.errors import KernelqualError
from pytest_kernelqual.launch import check_config, describe_kernel
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import (
    Describe,
    EnvironmentRead,
    Open,
    Opened,
    Output,
    Progress,
    ReadEnvironment,
    ReadOutput,
    Refused,
    Reply,
    Request,
    Tried,
    Try,
)
from pytest_kernelqual.model.outcome import Phase
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.model.spec import KernelSpec
from pytest_kernelqual.on_device.environment import Device, read_environment
from pytest_kernelqual.on_device.loader import Loader
from pytest_kernelqual.on_device.qualify import OpenCase


class Server:
    """Answer requests one by one; holds the spec files that were imported and the case that is open."""

    def __init__(self, settings: Settings, device: Device, send: Callable[[Reply], None]) -> None:
        """Keep the device; nothing touches it yet.

        Args:
            settings: Options of the run.
            device: What to run on, chosen before triton was imported.
            send: Takes `Progress` while a request is being answered.
        """
        self._settings = settings
        self._send = send
        self.device = device
        self._loader = Loader(settings, interpreted=self.device.interpreted)
        self.open_case: OpenCase | None = None
        self._spec: KernelSpec | None = None

    def answer(self, request: Request) -> Reply:
        """Answer one request; an error of ours is `Refused`."""
        try:
            return self._answer(request)
        except KernelqualError as error:
            return Refused(message=str(error))

    def _answer(self, request: Request) -> Reply:
        match request:
            case Describe():
                return self._loader.describe(request.path)
            case ReadEnvironment():
                seeds, repeats = self._settings.effort(self.device.kind)
                return EnvironmentRead(
                    environment=read_environment(self.device, self._settings, seeds=seeds, repeats=repeats)
                )
            case Open():
                return self._open(request)
            case Try():
                return self._try(Config(request.config))
            case ReadOutput():
                return Output(outputs=self._opened().output())

    def _open(self, request: Open) -> Opened:
        self.open_case = None  # frees the memory of the previous case first
        spec = self._loader.find(request.path, request.spec)
        _, repeats = self._settings.effort(self.device.kind, spec.seeds, spec.repeats)
        self._spec = spec
        self.open_case = OpenCase(
            spec,
            self._loader.find_case(spec, request.case),
            stream=f"{self._settings.seed}/{request.seed_index}/{request.spec}/{request.case}",
            device=self.device,
            repeats=repeats,
            on_progress=self._progress,
        )
        return self.open_case.open()

    def _try(self, config: Config) -> Tried:
        opened = self._opened()
        if self._spec is not None and self._spec.kernel is not None:
            problem = config.problem() or check_config(describe_kernel(self._spec.kernel), config)
            if problem:
                return Tried(outcome="unsupported", reason=problem)
        return opened.attempt(config)

    def _opened(self) -> OpenCase:
        if self.open_case is None:
            raise KernelqualError("no case is open; this is a fault of the tool")
        return self.open_case

    def _progress(self, phase: Phase, launches: int) -> None:
        self._send(Progress(phase=phase, launches=launches))
