"""What a launch amounts to, told without launching: compiled code, arguments, grids and calls, as one digest."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, NamedTuple

import torch

from pytest_kernelqual.errors import KernelqualError, UnknownProgramError
from pytest_kernelqual.launch.binary import code_digest
from pytest_kernelqual.launch.dry_run import DryLaunch, DryRun, dry_run
from pytest_kernelqual.launch.kernels import jit_function, signature
from pytest_kernelqual.launch.proof import Launch, Launches, compiled_launch
from pytest_kernelqual.launch.storages import Storages
from pytest_kernelqual.launch.trace import call_trace
from pytest_kernelqual.model.config import Config

# Options of which all that matters at a launch is in the code: what they change, they change there.
_COMPILED_IN = frozenset(
    {
        "hash",
        "num_stages",
        "maxnreg",
        "ptx_options",
        "enable_fp_fusion",
        "enable_reflect_ftz",
        "allow_flush_denorm",
        "waves_per_eu",
        "matrix_instr_nonkdim",
        "kpack",
        "schedule_hint",
    }
)


class Program(NamedTuple):
    """What one launch amounts to."""

    digest: str
    """Equal for launches that run the same code on the same arguments, in the same order among the same calls."""
    launches: list[Launch]
    """Of the kernel under test; resources as far as the compiler tells them."""
    calls: str = ""
    """Digest of all around the code: torch's operators, and what each launch is given besides numbers."""
    all_launches: tuple[DryLaunch, ...] = ()
    """Of every kernel."""


class Lasting:
    """What outlives the launches of a case, told apart by identity, and the programs that were seen of it."""

    def __init__(self) -> None:
        """Know of nothing."""
        self.storages = Storages()
        self.programs: dict[tuple[str, str, Config], Program] = {}
        """By the fixed launch's program, what else the host has at hand, and the config."""
        self._hooks: list[Callable[..., Any]] = []

    def hook(self, hook: Callable[..., Any]) -> int:
        """Return the number of a hook."""
        if hook not in self._hooks:
            self._hooks.append(hook)
        return self._hooks.index(hook)


class Look:
    """One launch that does not take place."""

    def __init__(self, kernel: Any, inputs: Iterable[torch.Tensor], *, device: torch.device, lasting: Lasting) -> None:
        """Prepare.

        Args:
            kernel: The kernel under test.
            inputs: What the launch works on.
            device: Where kernels run.
            lasting: Shared by the launches that are to be compared.
        """
        self._kernel = kernel
        self._lasting = lasting
        self._dry = DryRun()
        self._trace = call_trace(inputs, device=device, lasting=lasting.storages, launched=self._launched)

    @contextmanager
    def kept_back(self) -> Iterator[None]:
        """Launch nothing inside the block; force a config, if any, within it."""
        with dry_run(compiling=True, number=self._trace.pointer) as self._dry:
            yield

    @contextmanager
    def traced(self) -> Iterator[None]:
        """Trace the production call, which is all that the block may hold.

        Raises:
            UnknownProgramError: It reads values from the device, draws random numbers, or cannot be described.
        """
        with self._trace.whole():
            yield

    def program(self, log: Launches, gave: Iterable[tuple[str, Any]]) -> Program:
        """Return what was seen.

        Args:
            log: Of the observation inside of which the launch was kept back.
            gave: Names and values of what the launch returned.

        Raises:
            UnknownProgramError: Something in it cannot be compared, or the config was not carried.
        """
        for name, value in gave:
            self._trace.note(name, value)
        launches = [self._described(launch) for launch in self._dry.launches]
        self._prove(log)
        given = [
            (launch.jit.fn.__name__, launch.arguments.pointers, [self._lasting.hook(hook) for hook in launch.hooks])
            for launch in self._dry.launches
        ]
        return Program(
            digest=_digest((launches, self._trace.events)),
            launches=log.launches,
            calls=_digest((given, self._trace.events)),
            all_launches=tuple(self._dry.launches),
        )

    def _launched(self) -> int:
        return len(self._dry.launches) + self._dry.strays

    def _described(self, launch: DryLaunch) -> list[Any]:
        """Return what is compared of a launch."""
        name = launch.jit.fn.__name__
        if launch.arguments.unknown:
            raise UnknownProgramError(f"argument {launch.arguments.unknown[0]} of {name} cannot be described")
        if launch.compiled is None:
            raise UnknownProgramError(f"{name} was not compiled")
        code = launched_code(launch.compiled)
        if code is None:
            raise UnknownProgramError(f"the compiled code of {name} cannot be read")
        return [
            code,
            launch.grid and (*launch.grid, 1, 1)[:3],
            sorted((key, type(value).__name__, repr(value)) for key, value in launch.arguments.scalars.items()),
            launch.arguments.pointers,
            [self._lasting.hook(hook) for hook in launch.hooks],
        ]

    def _prove(self, log: Launches) -> None:
        """Log the launches of the kernel under test, and check that each carried its config."""
        if self._dry.strays:
            raise UnknownProgramError(f"{self._dry.strays} launches went past their kernel objects")
        jit = jit_function(self._kernel)
        found = signature(jit)
        for launch in self._dry.launches:
            if launch.jit is jit and launch.grid is not None:
                log.add(compiled_launch(launch.compiled, jit, found, launch.grid, log.expected))
        try:
            log.prove()
        except KernelqualError as error:
            raise UnknownProgramError(str(error)) from error


def launched_code(compiled: Any) -> str | None:
    """Return a digest of all that a launch takes of compiled code; None where it cannot be read."""
    code = code_digest(compiled.kernel)
    metadata = compiled.metadata._asdict()
    told = sorted((key, repr(value)) for key, value in metadata.items() if key not in _COMPILED_IN)
    return None if code is None else _digest((code, told))


def _digest(value: Any) -> str:
    return sha256(repr(value).encode()).hexdigest()
