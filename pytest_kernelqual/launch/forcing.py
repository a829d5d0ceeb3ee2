"""Force a config onto every launch of a kernel, or watch that it is carried."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from triton import knobs
from triton.compiler.compiler import CompiledKernel
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from pytest_kernelqual.errors import UnsupportedConfigError
from pytest_kernelqual.launch import tuning
from pytest_kernelqual.launch.kernels import TUNED_OPTIONS, interpreted, jit_function, launch_options, levels, signature
from pytest_kernelqual.launch.patching import defining, pass_through, patch
from pytest_kernelqual.launch.proof import (
    Launch,
    Launches,
    compiled_launch,
    interpreted_launch,
    same_value,
    sizes,
)
from pytest_kernelqual.model.config import Config, Scalar
from pytest_kernelqual.model.outcome import Phase


def _quiet(_phase: Phase) -> None:
    """Tell nobody."""


def _nothing() -> None:
    """Log nothing: another kernel."""


@contextmanager
def observed(
    kernel: Any,
    config: Config | None,
    *,
    fixed: Config | None = None,
    force: bool = True,
    grid: Callable[[dict[str, Any]], Any] | None = None,
    grid_independent: tuple[str, ...] = (),
    on_phase: Callable[[Phase], None] = _quiet,
) -> Iterator[Launches]:
    """Let every launch of `kernel` inside the block take `config`, and log what was really launched.

    Other kernels run as in production; autotuned ones among them are pinned to the first config that can be launched.

    Args:
        kernel: A Triton kernel, at any level of its wrappers.
        config: What to force; None for the fixed launch.
        fixed: The fixed config of an autotuned kernel; None for the first one that its pruning keeps.
        force: False where the launch got the config as its argument, so that it is only checked.
        grid: A callable of the arguments by name that replaces a tuple grid computed for another meta-parameter.
        grid_independent: Meta-parameters on which tuple grids do not depend.
        on_phase: Called with "compile" and "run" when such a phase begins.

    Raises:
        DeclarationError: `kernel` is not a Triton kernel.
        UnsupportedConfigError: Inside the block, when a launch cannot take the config.
    """
    observation = _Observation(
        kernel, config, fixed=fixed, force=force, grid=grid, grid_independent=grid_independent, on_phase=on_phase
    )
    with ExitStack() as undo:
        observation.install(undo)
        yield observation.log


@contextmanager
def pinned() -> Iterator[None]:
    """Pin every autotuned kernel that is launched inside the block to its first config, as beside a forced kernel."""
    with ExitStack() as undo:
        for cls in defining(Autotuner, "run"):
            patch(undo, cls, "run", _run_pinned)
        yield


def _run_pinned(tuner: Any, *args: Any, **keywords: Any) -> Any:
    before = {name: vars(tuner).get(name) for name in ("nargs", "best_config")}
    try:
        return tuning.run_pinned(tuner, args, keywords)
    finally:
        vars(tuner).update(before)


@dataclass
class _Frame:
    """One launch on its way through the wrappers of the kernel."""

    production: dict[str, Any] = field(default_factory=dict)
    """What production passed for the forced names."""
    tuned: set[str] = field(default_factory=set)
    """Names that an autotuner passes: a host that does not know them cannot compute a grid from them."""


class _Observation:
    """State of one `observed` block."""

    def __init__(
        self,
        kernel: Any,
        config: Config | None,
        *,
        fixed: Config | None,
        force: bool,
        grid: Callable[[dict[str, Any]], Any] | None,
        grid_independent: tuple[str, ...],
        on_phase: Callable[[Phase], None],
    ) -> None:
        self.jit = jit_function(kernel)
        self.signature = signature(self.jit)
        self.interpreted = interpreted(kernel)
        self.fixed = fixed
        self.force = force and config is not None
        self.grid = grid
        self.grid_independent = grid_independent
        known = {*self.signature.constexprs, *launch_options()}
        # With force=False the config may hold what only host code reads.
        self.expected: dict[str, Scalar] = {k: v for k, v in (config or {}).items() if self.force or k in known}
        self.forced = self.expected if self.force else {}
        self.on_phase = on_phase
        self.log = Launches(kernel=self.jit.fn.__name__, config=config, expected=self.expected)
        self.phase: Phase | None = None
        self.local = threading.local()  # backward kernels are launched by a thread of autograd
        self.pending: dict[int, tuple[Any, Callable[[], None]]] = {}
        self.tuners: dict[int, Any] = {}
        self.read: dict[int, tuple[Any, Launch]] = {}

    def install(self, undo: ExitStack) -> None:
        """Patch Triton; `undo` takes it all back."""
        self.undo = undo
        for cls in defining(Autotuner, "run"):
            patch(undo, cls, "run", self._tuner_run())
        for cls in defining(Heuristics, "run"):
            patch(undo, cls, "run", self._heuristics_run(vars(cls)["run"]))
        if self.forced:
            pass_through(undo, lambda wrapper: levels(wrapper)[-1:] == [self.jit])
        patch(undo, self.jit, "run", self._jit_run(self.jit.run))
        if self.interpreted:
            return
        for cls in defining(JITFunction, "_do_compile"):
            patch(undo, cls, "_do_compile", self._compile(vars(cls)["_do_compile"]))
        patch(undo, CompiledKernel, "launch_metadata", self._metadata(CompiledKernel.launch_metadata))
        for cls in defining(CompiledKernel, "_init_handles"):
            patch(undo, cls, "_init_handles", self._loading(vars(cls)["_init_handles"]))
        hook = knobs.runtime.launch_enter_hook
        if not isinstance(hook, knobs.HookChain):
            # Somebody put a plain function, or None, in the place of the chain.
            chain = knobs.HookChain()
            if hook is not None:
                chain.add(hook)
            patch(undo, knobs.runtime, "launch_enter_hook", chain)
            hook = chain
        hook.add(self._entered)
        undo.callback(hook.remove, self._entered)

    # Wrappers, from the outside in.

    def _tuner_run(self) -> Callable[..., Any]:
        """Run an autotuned kernel as in the steady state of production."""

        def run(tuner: Any, *args: Any, **keywords: Any) -> Any:
            self._remember(tuner)
            if levels(tuner)[-1:] != [self.jit]:
                return tuning.run_pinned(tuner, args, keywords)
            with self._launching() as frame:
                base = tuning.fixed_config(tuner, self.fixed) if self.fixed else None
                own = tuning.tuned_names(tuner)
                frame.tuned |= own
                if not self.force:
                    chosen = base or tuning.first_config(tuner, args, keywords)
                else:
                    # What production passes beside the autotuner is replaced where it stands.
                    given = self.signature.placed(args, keywords)
                    aside = {name: v for name, v in self.forced.items() if name in given and name not in own}
                    self._note(frame, self.signature.bound(args, keywords))
                    args, keywords = self.signature.replaced(args, keywords, aside)
                    rest = Config({name: v for name, v in self.forced.items() if name not in aside})
                    changed = base or tuning.first_config(tuner, args, keywords)
                    chosen = tuning.forced_config(tuner, rest, changed)
                if self.force or base:
                    tuning.require_kept(tuner, chosen, args, keywords)
                return tuning.run_steadily(tuner, chosen, args, keywords)

        return run

    def _heuristics_run(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Let derived parameters be computed from the forced ones."""

        def run(heuristics: Any, *args: Any, **keywords: Any) -> Any:
            chain = levels(heuristics)
            if chain[-1:] != [self.jit] or not self.forced:
                return original(heuristics, *args, **keywords)
            below = next((level for level in chain if isinstance(level, Autotuner)), None)
            # An autotuner below passes these itself; heuristics above it never see them in production.
            hidden = tuning.tuned_names(below) | launch_options() if below is not None else set()
            shown = {name: value for name, value in self.forced.items() if name not in hidden}
            with self._launching() as frame:
                self._note(frame, self.signature.bound(args, keywords))
                args, keywords = self.signature.replaced(
                    args, keywords, {name: value for name, value in shown.items() if name not in heuristics.values}
                )
                computed = heuristics.values
                heuristics.values = {
                    name: _forced_value(frame, name, compute, shown[name]) if name in shown else compute
                    for name, compute in computed.items()
                }
                try:
                    return original(heuristics, *args, **keywords)
                finally:
                    heuristics.values = computed

        return run

    def _jit_run(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Put the forced values in the place of production's: the last word before Triton itself."""

        def run(*args: Any, grid: Any, warmup: bool, **keywords: Any) -> Any:
            with self._launching() as frame:
                self._note(frame, self.signature.bound(args, keywords))
                args, keywords = self.signature.replaced(args, keywords, self.forced)
                if warmup:
                    self.log.warmups += 1
                else:
                    grid = self._followed(frame, grid, args, keywords)
                    if self.interpreted:
                        grid = self._interpreted(grid, args, keywords)
                return original(*args, grid=grid, warmup=warmup, **keywords)

        return run

    def _followed(self, frame: _Frame, grid: Any, args: Any, keywords: Mapping[str, Any]) -> Any:
        """Return the grid of the forced launch."""
        if callable(grid):
            return grid
        # A parameter may have the name of a launch option, and then is given to both.
        independent = {*self.grid_independent, *frame.tuned, *TUNED_OPTIONS}
        changed = [
            name
            for name, value in self.forced.items()
            if name in self.signature.constexprs
            and name not in independent
            and not same_value(frame.production.get(name, ...), value)
        ]
        if not changed:
            return grid
        if self.grid is not None:
            return tuple(self.grid(self.signature.bound(args, keywords)))
        name = changed[0]
        was = f"{name}={frame.production[name]!r}" if name in frame.production else f"another {name}"
        raise UnsupportedConfigError(
            f"grid does not follow {name}: production launched {self.log.kernel} with the tuple grid {sizes(grid)} "
            f"for {was}, the config says {name}={self.forced[name]!r}; "
            f"give grid= (a callable), or grid_independent=({name!r},) if the grid does not depend on it"
        )

    def _interpreted(self, grid: Any, args: Any, keywords: Mapping[str, Any]) -> Any:
        """Log a launch of the interpreter and return its grid as the interpreter takes it."""
        bound = self.signature.bound(args, keywords)
        # Evaluated here on plain arguments, as on a GPU: the interpreter would hand its own tensors to the callable.
        grid = tuple(grid(bound) if callable(grid) else grid)
        self._enter("run")
        self.log.add(interpreted_launch(bound, keywords, self.signature, grid, self.expected))
        return grid

    # What the compiled path really does.

    def _compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compile_kernel(jit: Any, *args: Any, **keywords: Any) -> Any:
            self._enter("compile")
            made = original(jit, *args, **keywords)
            # Not after a failure: the phase tells where the launch ended.
            self._enter("run")
            return made

        return compile_kernel

    def _loading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Let making what calls a kernel count as compiling: some versions of Triton compile C for it.

        The rest of loading does not: it may wait for launches before it, which may hang.
        """

        def init_handles(compiled: Any) -> Any:
            if getattr(compiled, "_run", ...) is not None:
                return original(compiled)
            make = driver.active.launcher_cls

            def launcher(*args: Any, **keywords: Any) -> Any:
                self._enter("compile")
                try:
                    return make(*args, **keywords)
                finally:
                    self._enter("run")  # where it fails, no kernel's code is at fault

            with ExitStack() as undo:
                patch(undo, driver.active, "launcher_cls", launcher)
                return original(compiled)

        return init_handles

    def _metadata(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def launch_metadata(compiled: Any, grid: Any, stream: Any, *args: Any) -> Any:
            self._enter("run")
            made = original(compiled, grid, stream, *args)
            log: Callable[[], None]
            if getattr(compiled.src, "fn", None) is not self.jit:
                log = _nothing
            elif self._frame() is None and any(name in self.signature.constexprs for name in self.forced):
                # A launch past the kernel object has the grid of production's own block size.
                log = self._stray
            else:
                log = partial(self.log.add, self._launch(compiled, grid))
            # Kept with the object, so that its id cannot be taken by another one.
            self.pending[id(made)] = (made, log)
            return made

        return launch_metadata

    def _launch(self, compiled: Any, grid: Any) -> Launch:
        """Return the launch of a compiled kernel, which is read once: a timed graph holds hundreds of launches."""
        if id(compiled) not in self.read:  # kept with the object, so that its id cannot be taken by another one
            launch = compiled_launch(compiled, self.jit, self.signature, grid, self.expected)
            self.read[id(compiled)] = compiled, launch
        return replace(self.read[id(compiled)][1], grid=sizes(grid))

    def _entered(self, metadata: Any) -> None:
        """Log what the driver is told to launch."""
        if id(metadata) in self.pending:
            _, log = self.pending.pop(id(metadata))
            log()
            return
        # Made by other means than the compiled kernel's own: only the name is left to tell which kernel it is.
        data = getattr(metadata, "data", None)
        name = data.get("name") if isinstance(data, dict) else None
        if name is None or name in self._compiled_names():
            self._stray()

    def _stray(self) -> None:
        self.log.strays += 1

    # Small parts.

    def _enter(self, phase: Phase) -> None:
        if phase != self.phase:
            self.phase = phase
            self.on_phase(phase)

    def _frame(self) -> _Frame | None:
        return getattr(self.local, "frame", None)

    @contextmanager
    def _launching(self) -> Iterator[_Frame]:
        """Enter a wrapper of the kernel; the outermost one begins the launch."""
        outer = self._frame()
        frame = outer or _Frame()
        self.local.frame = frame
        try:
            yield frame
        except UnsupportedConfigError as refusal:
            self.log.refusal = refusal
            raise
        finally:
            self.local.frame = outer

    def _compiled_names(self) -> set[str]:
        kernels = [kernel for cache in self.jit.device_caches.values() for kernel in cache[0].values()]
        return {self.log.kernel, *(getattr(kernel, "name", self.log.kernel) for kernel in kernels)}

    def _note(self, frame: _Frame, given: Mapping[str, Any]) -> None:
        for name in self.forced:
            if name in given:
                frame.production.setdefault(name, given[name])

    def _remember(self, tuner: Any) -> None:
        """Put `nargs` and `best_config`, which user code may read, back after the block."""
        if id(tuner) not in self.tuners:
            self.tuners[id(tuner)] = tuner
            for name in ("nargs", "best_config"):
                patch(self.undo, tuner, name, vars(tuner).get(name))


def _forced_value(frame: _Frame, name: str, compute: Callable[..., Any], value: Scalar) -> Callable[..., Any]:
    def forced(arguments: dict[str, Any]) -> Scalar:
        frame.production[name] = compute(arguments)
        return value

    return forced
