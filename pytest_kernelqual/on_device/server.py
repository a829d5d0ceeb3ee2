"""Answer requests about one spec file, case and candidate at a time."""

from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from pytest_kernelqual.errors import KernelqualError, UnmeasurableError
from pytest_kernelqual.launch import Lasting, check_config, describe_kernel
from pytest_kernelqual.model.code import CodeRead, ReadCode
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
    Survey,
    Surveyed,
    Tried,
    Try,
)
from pytest_kernelqual.model.outcome import Phase
from pytest_kernelqual.model.profiles import FIRST, InputSet
from pytest_kernelqual.model.repro import LaunchSaved, SaveInputs, SaveLaunch
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.model.spec import KernelSpec
from pytest_kernelqual.model.timing import OpenTiming, Sample, Sampled, TimingOpened
from pytest_kernelqual.on_device.arms import compare_arms
from pytest_kernelqual.on_device.capturing import save_launch
from pytest_kernelqual.on_device.clocks import ClockReader
from pytest_kernelqual.on_device.code import read_code
from pytest_kernelqual.on_device.environment import Device, read_environment
from pytest_kernelqual.on_device.executor import Executor
from pytest_kernelqual.on_device.guards import Buffer
from pytest_kernelqual.on_device.layouts import CHEAP_LAYOUT_PROBES, PLAIN, Exposure
from pytest_kernelqual.on_device.loader import Loader
from pytest_kernelqual.on_device.provocation import Provocation
from pytest_kernelqual.on_device.qualify import OpenCase, ToTime
from pytest_kernelqual.on_device.saved_inputs import save_inputs, with_saved_inputs
from pytest_kernelqual.on_device.surveying import CompileSurvey
from pytest_kernelqual.on_device.timing import Comparison, Ruler, probe_ruler


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
        self._clocks = ClockReader(device)
        self._provocation = Provocation(device, wanted=settings.provocation)
        self._loader = Loader(settings, interpreted=self.device.interpreted)
        self.open_case: OpenCase | None = None
        self._stream = ""
        self._looked_at = ("", "", "")
        self._lasting = Lasting()
        self._to_time: dict[tuple[str, str, str], ToTime] = {}
        self._left_alive: list[Buffer] = []
        self._comparison: Comparison | None = None
        self._ruler: Ruler | None = None
        self._told: tuple[Phase, int] | None = None
        self._quiet = False

    def answer(self, request: Request) -> Reply:
        """Answer one request; an error of ours is `Refused`."""
        self._told = None
        self._quiet = isinstance(request, Survey) and request.quiet
        try:
            return self._answer(request)
        except KernelqualError as error:
            return Refused(message=str(error))

    def _answer(self, request: Request) -> Reply:
        match request:
            case Describe():
                reply: Reply = self._loader.describe(request.path)
            case ReadEnvironment():
                reply = self._read_environment()
            case Survey():
                reply = self._survey(request)
            case Open():
                reply = self._open(request)
            case Try():
                reply = self._try(Config(request.config), look=request.look)
            case ReadOutput():
                reply = Output(outputs=self._opened().output())
            case OpenTiming():
                reply = self._open_timing(request)
            case Sample():
                reply = self._sample(request)
            case ReadCode() | SaveInputs() | SaveLaunch():
                reply = self._written_down(request)
        return reply

    def _read_environment(self) -> EnvironmentRead:
        seeds, repeats = self._settings.effort(self.device.kind)
        environment = read_environment(self.device, self._settings, seeds=seeds, repeats=repeats)
        told = structs.replace(environment, provocation=self._provocation.told, disturbance_checks=self._clocks.told)
        return EnvironmentRead(environment=told)

    def _survey(self, request: Survey) -> Surveyed:
        self._close_case()
        survey = CompileSurvey(
            workers=self._settings.compile_workers,
            memory_gib=self._settings.compile_memory_gib,
            target=self.device.target,
            ordered=self._settings.target_orders,
        )
        for one in (request, *request.beside):
            self._look_at(survey, one)
        return survey.compile(lambda done, of: self._tell(Progress(phase="compile", compiled=(done, of))))

    def _look_at(self, survey: CompileSurvey, request: Survey) -> None:
        spaces: dict[str, str] = {}  # tokens by spec; for targets nothing is looked up by them
        for number, (name, case) in enumerate(request.cases):
            spec = self._loader.find(request.path, name)
            if name not in spaces:
                spaces[name] = "" if self.device.target else self._loader.space(spec)
            candidates = self._loader.candidates(spec)
            if request.configs is not None:
                candidates = tuple(map(Config, request.configs[number]))
            self._stream = f"{self._settings.seed}/0/{name}/{case}"
            limit_s = spec.compile_timeout_s or self._settings.compile_timeout_s
            # Other layouts are other code.
            probes = [Exposure.of(probe, spec.probes) for probe in CHEAP_LAYOUT_PROBES if probe in spec.probes]
            for exposure in (PLAIN, *probes):
                survey.look(self._case(spec, case, exposure), candidates, limit_s, space=spaces[name])

    def _written_down(self, request: ReadCode | SaveInputs | SaveLaunch) -> Reply:
        """Answer what commands ask of one candidate."""
        case = self._fresh_case(request)
        if isinstance(request, SaveInputs):
            return save_inputs(case.executor, Path(request.file))
        config = Config(request.config)
        problem = self._config_problem(case.spec, config)
        if isinstance(request, SaveLaunch):
            return LaunchSaved(problem=problem) if problem else save_launch(case.executor, config, Path(request.file))
        if self.device.interpreted:
            raise KernelqualError("the Triton interpreter compiles nothing")
        return CodeRead(problem=problem) if problem else read_code(case.executor, config)

    def _fresh_case(self, request: Open | ReadCode | SaveInputs | SaveLaunch) -> OpenCase:
        """Return a case on one input set, in the place of what was open; nothing of it is built."""
        self._close_case()
        spec = self._loader.find(request.path, request.spec)
        if isinstance(request, Open) and request.inputs:
            spec = with_saved_inputs(spec, request.inputs)
        self._stream = f"{self._settings.seed}/{request.seed_index}/{request.spec}/{request.case}"
        return self._case(spec, request.case, Exposure.of(request.profile, spec.probes))

    def _open(self, request: Open) -> Opened:
        self.open_case = self._fresh_case(request)
        name = (request.path, request.spec, request.case)
        if self._looked_at != name:
            self._looked_at, self._lasting = name, Lasting()
        self.open_case.executor.lasting = self._lasting
        if request.for_timing:
            return self.open_case.open_for_timing(self._to_time.get(name))
        first = InputSet(request.profile, request.seed_index) == FIRST
        opened = self.open_case.open(ask_oracle=request.ask_oracle, check_batch=first)
        if first and opened.outcome == "qualified" and self.open_case.to_time is not None:
            self._to_time[name] = self.open_case.to_time
        return opened

    def _close_case(self) -> None:
        """Free the open case, all but what its launches left alive: the next ones may find it."""
        self._comparison = None
        if self.open_case is not None:
            self._left_alive = self.open_case.close()
            self.open_case = None

    def _case(self, spec: KernelSpec, id_: str, exposure: Exposure) -> OpenCase:
        """Return a case of which nothing is built."""
        executor = Executor(
            spec,
            self._loader.find_case(spec, id_),
            stream=self._stream,
            device=self.device,
            on_progress=self._progress,
            provocation=self._provocation,
            exposure=exposure,
            survivors=self._left_alive,
        )
        _, repeats = self._settings.effort(self.device.kind, spec.seeds, spec.repeats)
        return OpenCase(executor, repeats=repeats)

    def _try(self, config: Config, *, look: bool) -> Tried:
        opened = self._opened()
        problem = self._config_problem(opened.spec, config)
        if problem:
            return Tried(outcome="unsupported", reason=problem)
        return opened.attempt(config, look=look)

    @staticmethod
    def _config_problem(spec: KernelSpec, config: Config) -> str | None:
        """Say what the kernel cannot take of a config, or None."""
        if spec.kernel is None:
            return None
        return config.problem() or check_config(describe_kernel(spec.kernel), config)

    def _open_timing(self, request: OpenTiming) -> TimingOpened:
        opened = self._opened()
        if self.device.interpreted:
            return TimingOpened(reason="no device: the interpreter is not timed")
        if self._ruler is None:
            self._ruler = probe_ruler()
        try:
            if request.arms is None:
                self._compared().lengthen(request.target_us)
            else:
                self._comparison = None  # its memory is wanted
                self._comparison = compare_arms(
                    opened,
                    request.arms,
                    self._ruler,
                    stream=self._stream,
                    target_us=request.target_us,
                    cold=request.cache == "cold",
                )
        except UnmeasurableError as error:
            return TimingOpened(reason=str(error))
        plan = self._compared().plan
        return TimingOpened(
            method=plan.method,
            cache=plan.cache,
            ring=plan.ring,
            launches=plan.launches,
            footprint_bytes=plan.footprint_bytes,
            restored=plan.restored,
            quantum_us=self._ruler.quantum_us,
            empty_us=self._ruler.empty_us,
        )

    def _sample(self, request: Sample) -> Sampled:
        comparison = self._compared()
        try:
            comparison.warm_up()
            before = self._clocks.read()
            rounds, roughly = request.rounds, request.roughly
            taken = [comparison.rounds(*pair, rounds, roughly=roughly) for pair in request.pairs]
        except UnmeasurableError as error:
            return Sampled(rounds=[], reason=str(error))
        clocks = [clock for clock in (before, self._clocks.read()) if clock is not None]
        return Sampled(rounds=taken, clocks=clocks)

    def _compared(self) -> Comparison:
        if self._comparison is None:
            raise KernelqualError("no comparison is open; this is a fault of the tool")
        return self._comparison

    def _opened(self) -> OpenCase:
        if self.open_case is None:
            raise KernelqualError("no case is open; this is a fault of the tool")
        return self.open_case

    def _progress(self, phase: Phase, launches: int) -> None:
        """Tell the owner, unless that is what it was told last."""
        if (phase, launches) != self._told:
            self._told = phase, launches
            self._tell(Progress(phase=phase, launches=launches))

    def _tell(self, progress: Progress) -> None:
        if not self._quiet:
            self._send(progress)
