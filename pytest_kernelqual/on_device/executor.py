"""Execution of one case on one input set: build its inputs once, then launch it as often as asked, each time afresh."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

from pytest_kernelqual.errors import InputError, KernelqualError, UnknownProgramError
from pytest_kernelqual.launch import DryRun, Lasting, Launch, Launches, Look, Program, dry_run, observed, pinned
from pytest_kernelqual.launch.trace import CallTrace, call_trace
from pytest_kernelqual.model.case import Case
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.outcome import Phase
from pytest_kernelqual.model.probes import inputs_problem
from pytest_kernelqual.model.spec import KernelSpec
from pytest_kernelqual.on_device.environment import Device
from pytest_kernelqual.on_device.failed import LaunchFailed, failed_launch
from pytest_kernelqual.on_device.guards import Buffer
from pytest_kernelqual.on_device.host_reads import Undrawn, host_reads_refused
from pytest_kernelqual.on_device.inputs import SeededInputs
from pytest_kernelqual.on_device.layouts import PLAIN, Exposure
from pytest_kernelqual.on_device.memory import Memory
from pytest_kernelqual.on_device.outputs import Output, collect, leaves
from pytest_kernelqual.on_device.provocation import Provocation
from pytest_kernelqual.on_device.reachable import reachable_values
from pytest_kernelqual.on_device.survivors import Survivors
from pytest_kernelqual.on_device.wording import first_line
from pytest_kernelqual.on_device.zeroed import zeroed_allocations, zeros

OnProgress = Callable[[Phase, int], None]


class Run(NamedTuple):
    """One launch that ended well."""

    outputs: list[Output]
    launches: list[Launch]
    changed: frozenset[str]
    """Names of the inputs that the launch changed."""
    provoked: tuple[str, ...] = ()
    """How the launch was provoked: `dirty`, `noise`."""


class Executor:
    """Launch a case under any config; what goes wrong is a `LaunchFailed`."""

    def __init__(
        self,
        spec: KernelSpec,
        case: Case,
        *,
        stream: str,
        device: Device,
        on_progress: OnProgress,
        provocation: Provocation,
        exposure: Exposure = PLAIN,
        survivors: Sequence[Buffer] = (),
    ) -> None:
        """Prepare; nothing is built before `build`.

        Args:
            spec: What to launch.
            case: Its workload.
            stream: Names the seed; equal streams give equal input bytes everywhere.
            device: What to run on.
            on_progress: Told the phase and the number of finished launches whenever a phase begins.
            provocation: What provokes launches.
            exposure: How the inputs differ from what the builder asks for.
            survivors: What launches of earlier cases left alive.
        """
        self.spec = spec
        self.case = case
        self.device = device
        self.exposure = exposure
        self._stream = stream
        self._on_progress = on_progress
        self._provocation = provocation
        self.memory = Memory(device.torch_device, survivors=survivors)
        self._survivors = Survivors()
        self.lasting = Lasting()
        """What looks remember; those at several input sets of a case may share it."""
        self._looking = False
        self._dry = DryRun()
        self._undrawn = Undrawn()
        self.inputs = SeededInputs(
            stream=stream,
            device=device.torch_device,
            interpreted=device.interpreted,
            allocate=zeros if device.target else self.memory.allocate,
            exposure=exposure,
            **({"draws": self._undrawn.draws} if device.target else {}),
        )
        self._launch: Callable[..., Any] = _never
        self.takes_config = False
        self.phase: Phase = "inputs"
        self.launched = 0
        """Finished launches, of the candidate where one is tried."""
        self.mutated: frozenset[str] = frozenset()
        """Names of the inputs that the fixed launch changes; a candidate may change no others."""
        self._checked = not survivors
        """Whether what launches damaged was looked for, and repaired."""
        self.last_error: BaseException | None = None
        self._unchanged = False

    def beside(self, case: Case, make_inputs: Callable[..., SeededInputs]) -> "Executor":
        """Return an executor of another case whose inputs are made otherwise, from the same stream."""
        made = Executor(
            self.spec,
            case,
            stream=self._stream,
            device=self.device,
            on_progress=self._on_progress,
            provocation=self._provocation,
        )
        made.inputs = make_inputs(
            stream=self._stream,
            device=self.device.torch_device,
            interpreted=self.device.interpreted,
            allocate=made.memory.allocate,
        )
        return made

    def build(self) -> None:
        """Build the inputs and the launch."""
        self.enter("inputs")
        with self.failures(), host_reads_refused(self.device, self._undrawn) if self.device.target else nullcontext():
            launch = self.spec.builder(self.case, self.inputs)
            if not callable(launch):
                raise InputError(
                    f"the builder returned {type(launch).__name__}, not a launch; "
                    "end it with `return lambda: my_op(...)`"
                )
            self.takes_config = _takes_config(launch)
            if self.spec.kernel is None and not self.takes_config:
                raise InputError(
                    "without kernel= the launch must take the config: `return lambda config: my_op(..., config)`"
                )
            problem = inputs_problem(self.spec.probes, self.inputs.remembered)
            if problem is not None:
                raise InputError(problem)
            self._launch = launch
            if not self.device.target:
                self.inputs.freeze(launch)

    def execute(
        self,
        config: Config | None,
        pattern: int,
        *,
        leftover: int | None = None,
        noise: bool = False,
        follows: bool = False,
    ) -> Run:
        """Launch once on fresh inputs, in memory poisoned by the pattern, and collect what came out.

        Args:
            config: What to force; None is the fixed launch.
            pattern: Byte of memory that nobody wrote.
            leftover: Byte that shared memory and registers are left full of, where they can be; left out: the pattern.
            noise: Launch beside a noise kernel, where there is one.
            follows: Leave memory that outlives launches as the launch before has left it.
        """
        with self.failures():
            self._prepare(follows=follows)
            self._checked = False
            with self.observed(config) as launches:
                dirt = pattern if leftover is None else leftover
                with self.memory.poisoned(pattern), self._provocation.around(dirt, noise=noise) as provoked:
                    returned = self._called(config)
                self.device.synchronize()
            if self.spec.kernel is not None:
                launches.prove()
            self.launched += 1
            changed = frozenset(item.name for item in self.inputs.changed())
            self._unchanged = not changed
            self._check_damage(changed - self.mutated if config is not None else frozenset())
            outputs = collect(
                returned,
                [(item.name, item.tensor) for item in self.inputs.tensors if item.name in changed | self.mutated],
                self._grads(),
            )
            return Run(outputs, launches.launches, changed, tuple(provoked))

    def _called(self, config: Config | None) -> Any:
        """Call the launch, with the config where it takes one."""
        return self._launch(config) if self.takes_config else self._launch()

    @cached_property
    def host_values(self) -> str:
        """Return a digest of the numbers and texts that the launch can reach, which may differ between input sets."""
        return sha256(repr(sorted(map(str, reachable_values(self._launch)))).encode()).hexdigest()

    def look(self, config: Config | None) -> Program:
        """Tell what a launch amounts to, without launching; None is the fixed launch.

        Memory is zeroed, not poisoned: what kernels would have left there may be used as an index.
        Nothing is waited for: what the host's own calls do wrong on the device shows at the next wait.

        Raises:
            UnknownProgramError: It cannot be told.
            LaunchFailed: It cannot be compiled.
        """
        self._looking = True
        try:
            return self._looked(config)
        finally:
            self._looking = False

    def _looked(self, config: Config | None) -> Program:
        with self.failures():
            self._prepare()
        tensors = [item.tensor for item in self.inputs.tensors]
        look = Look(self.spec.kernel, tensors, device=self.device.torch_device, lasting=self.lasting)
        try:
            with (
                look.kept_back(),
                self.observed(config) as log,
                self.memory.poisoned(0, inputs=False),  # no kernel is there to read around them
                look.traced(),
            ):
                returned = self._called(config)
            gave = [] if returned is None else list(leaves("return", returned))
            program = look.program(log, gave + self._grads())
        except UnknownProgramError:
            raise
        except Exception as error:
            if self.phase == "compile":
                with self.failures():
                    raise
            # Whatever else goes wrong may do so for want of results, and shows when it is run.
            raise UnknownProgramError(f"the dry run raised {type(error).__name__}: {first_line(error)}") from None
        return program

    def trace(self) -> CallTrace:
        """Return a trace for one dry run."""
        return call_trace(
            [item.tensor for item in self.inputs.tensors],
            device=self.device.torch_device,
            lasting=self.lasting.storages,
            launched=lambda: len(self._dry.launches) + self._dry.strays,
        )

    def dry_run(self, config: Config | None, trace: CallTrace | None = None) -> tuple[DryRun, LaunchFailed | None]:
        """Return what a launch would launch, and how it failed, if it did; no kernel is launched.

        Memory holds zeros, which are the safest indices, and the host may not read what kernels should have computed.
        A trace, if one is given, ends the launch where its calls cannot be compared with others.
        """
        self._dry = DryRun()
        try:
            with self.failures():
                if not self.device.target:  # where nothing is ever launched, nothing needs to be as in a launch
                    self._prepare()
                with (
                    host_reads_refused(self.device, self._undrawn) as refuse,
                    dry_run(on_launch=refuse, number=trace.pointer if trace is not None else None) as self._dry,
                    self.observed(config),
                    zeroed_allocations() if self.device.target else self.memory.poisoned(0),
                    trace.whole() if trace is not None else nullcontext(),
                ):
                    returned = self._called(config)
                self._dry.ended = True
                if trace is not None:
                    for name, value in [*leaves("return", returned), *self._grads()]:
                        trace.note(name, value)
                del returned
                self.device.synchronize()
                self.inputs.drop_gradients()
        except LaunchFailed as failed:
            return self._dry, failed
        return self._dry, None

    def settle(self, unchanged: Callable[[], bool]) -> None:
        """Tell scratch from constants in what the fixed launch left alive.

        Args:
            unchanged: Launches it once more, and tells whether it gave the same bytes as before.
        """
        self.inputs.restore()  # lets gradients go, which outlive a launch and are outputs
        self._survivors.settle(self.memory.survivors(), unchanged)

    def observed(self, config: Config | None) -> AbstractContextManager[Launches]:
        """Return the context in which launches take the config; None is the fixed launch."""
        if self.spec.kernel is None:
            return _pinned(Launches(kernel="", config=config))
        return observed(
            self.spec.kernel,
            config,
            fixed=self.spec.fixed,
            force=not self.takes_config,
            grid=self.spec.grid,
            grid_independent=self.spec.grid_independent,
            on_phase=self.enter,
        )

    def enter(self, phase: Phase) -> None:
        """Begin a phase, which has a time limit of its own."""
        self.phase = "inputs" if self._looking and phase == "run" else phase
        self._on_progress(self.phase, self.launched)

    @property
    def keeps_memory(self) -> bool:
        """Tell whether the fixed launch found or left memory that outlives launches."""
        return bool(self._survivors)

    def _prepare(self, *, follows: bool = False) -> None:
        """Give inputs and memory the state in which every launch begins."""
        if not self._checked:
            self.memory.damage()  # done by a launch that failed, and by no later one
            self._checked = True
        self.inputs.restore(unchanged=self._unchanged)
        self._unchanged = False
        if not follows:
            self._survivors.prepare()
        self.memory.begin_launch()
        self.enter("run")

    def _grads(self) -> list[tuple[str, Any]]:
        return [(item.name, item.tensor.grad) for item in self.inputs.tensors if item.tensor.grad is not None]

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Turn whatever a builder or launch raises into a `LaunchFailed`."""
        try:
            yield
        except LaunchFailed:
            raise
        except Exception as error:
            if self.device.interpreted:  # its frames hold tensors, and a device has no memory to spare
                self.last_error = error
            raise failed_launch(error, self.phase, self.device) from error

    def _check_damage(self, undeclared: frozenset[str]) -> None:
        """End the launch when guard bytes, or inputs that the fixed launch leaves alone, have changed."""
        damage = [str(item) for item in self.memory.damage()]
        self._checked = True
        damage += [f"input {name} was changed, which the fixed launch leaves alone" for name in sorted(undeclared)]
        if damage:
            raise LaunchFailed("out_of_bounds_write", damage[0], {"damage": damage})


@contextmanager
def _pinned(launches: Launches) -> Iterator[Launches]:
    with pinned():
        yield launches


def _takes_config(launch: Callable[..., Any]) -> bool:
    """Tell whether the launch takes the config as its argument; InputError for any other signature."""
    try:
        parameters = list(inspect.signature(launch).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    required = [
        item
        for item in parameters
        if item.default is item.empty and item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)
    ]
    if len(required) > 1 or any(item.kind is item.KEYWORD_ONLY for item in required):
        names = ", ".join(item.name for item in required)
        raise InputError(f"the launch takes ({names}); it must take nothing or the config alone")
    return bool(required) or any(item.name == "config" for item in parameters)


def _never() -> None:
    raise KernelqualError("launched before the case was built; this is a fault of the tool")
