"""Run production code without launching its kernels, and tell what it would launch."""

import gc
import hashlib
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from triton import compile as triton_compile
from triton import knobs
from triton._C.libtriton import get_cache_invalidating_env_vars
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import CompiledKernel, make_backend
from triton.runtime.cache import get_cache_key, get_cache_manager
from triton.runtime.jit import JITFunction

from pytest_kernelqual.errors import DryRunError
from pytest_kernelqual.launch import tuning
from pytest_kernelqual.launch.dry_caches import DryCaches
from pytest_kernelqual.launch.forcing import pinned
from pytest_kernelqual.launch.kernels import is_scalar, plain
from pytest_kernelqual.launch.patching import defining, pass_through, patch
from pytest_kernelqual.launch.proof import sizes
from pytest_kernelqual.launch.storages import Storages

# No more is asked for by Triton, vector loads and tensor memory accelerators.
_LARGEST_ALIGNMENT_BYTES = 16


@dataclass(frozen=True)
class Specialisation:
    """What the compiler is given: equal keys are one code object, in this process and every other."""

    source: Any
    """Triton's own source object, of the jit function, its signature, constants and attributes."""
    options: Any
    """Triton's own options object for the target."""
    target: GPUTarget
    key: str
    """Name of the code object in Triton's cache."""

    @property
    def jit(self) -> JITFunction:
        """Return the jit function."""
        return self.source.fn

    @property
    def signature(self) -> Mapping[str, Any]:
        """Return the type of each parameter, `constexpr` for those compiled in."""
        return MappingProxyType(self.source.signature)

    @property
    def constexprs(self) -> Mapping[tuple[int, ...], Any]:
        """Return what is compiled in, by path: the position of the parameter, and the way into tuples."""
        return MappingProxyType(self.source.constants)

    @property
    def attributes(self) -> Mapping[tuple[int, ...], Any]:
        """Return what is assumed of arguments, by path, such as divisibility by 16."""
        return MappingProxyType(self.source.attrs)

    def cached(self) -> bool:
        """Tell whether Triton's cache has the code object, so that a launch does not compile."""
        return is_cached(self.key, self.source.name)

    def compile(self) -> CompiledKernel:
        """Compile, or read what was compiled before."""
        return triton_compile(self.source, target=self.target, options=vars(self.options))


def is_cached(key: str, kernel: str) -> bool:
    """Tell whether Triton's cache has a code object, by its key and the name of its kernel."""
    name = f"{kernel[:150]}.json"  # as triton.compile cuts it
    try:
        return not knobs.compilation.always_compile and name in (get_cache_manager(key).get_group(name) or {})
    except OSError:  # a cache that cannot be read, or in which no folder can be made
        return False


@dataclass(frozen=True)
class Pointer:
    """One pointer argument."""

    name: str
    """Of the parameter, with the way into tuples and descriptors: `x`, `x[0]`, `x.base`."""
    alias: int
    """Equal for pointers into one storage, over all launches of a dry run, in order of their first use."""
    offset_bytes: int
    """From the beginning of the storage."""
    alignment_bytes: int
    """Largest power of two, up to 16, that divides the address."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of a launch that are not declared constexpr; tuples and descriptors part by part."""

    scalars: Mapping[str, Any]
    """Numbers, texts and None, by name."""
    pointers: tuple[Pointer, ...]
    unknown: tuple[str, ...]
    """Names of those of which nothing can be told."""

    @classmethod
    def of(
        cls, bound: Mapping[str, Any], constexprs: set[str], pointer: Callable[[str, torch.Tensor], Pointer]
    ) -> "Arguments":
        """Sort the bound arguments; `pointer` describes a tensor."""
        parts = [part for name, value in bound.items() if name not in constexprs for part in _flat(name, value)]
        scalars = {name: plain(value) for name, value in parts if is_scalar(plain(value))}
        tensors = {name: value for name, value in parts if isinstance(value, torch.Tensor)}
        return cls(
            MappingProxyType(scalars),
            tuple(pointer(name, value) for name, value in tensors.items()),
            tuple(name for name, _ in parts if name not in scalars and name not in tensors),
        )


@dataclass(frozen=True)
class DryLaunch:
    """One launch that production asked for and that did not take place."""

    specialisation: Specialisation
    grid: tuple[int, ...] | None
    """Programs by axis; None where only a compilation was asked for (`warmup`)."""
    arguments: Arguments
    """What is passed at run time."""
    keywords: Mapping[str, Any]
    """What the launch was given beside the parameters: `num_warps` and other options."""
    hooks: tuple[Callable[..., Any], ...]
    """Called before the launch: `Config.pre_hook` of autotuners, then `add_pre_run_hook`; they do run."""
    compiled: CompiledKernel | None
    """None unless the dry run compiles."""

    @property
    def jit(self) -> JITFunction:
        """Return the jit function."""
        return self.specialisation.jit


@dataclass
class DryRun:
    """What happened inside a `dry_run` block."""

    launches: list[DryLaunch] = field(default_factory=list)
    strays: int = 0
    """Launches past the kernel objects, such as those of a library's own launch cache: kept back, not described."""
    ended: bool = False
    """Production has returned, so that there are no further launches; set by whoever calls it."""
    stand_ins: list["weakref.ref[NotCompiled]"] = field(default_factory=list)

    def retained(self) -> int:
        """Count what production was given for a compiled kernel and still has: a launch of it would fail."""
        if any(made() is not None for made in self.stand_ins):
            gc.collect()
        return sum(made() is not None for made in self.stand_ins)


def _nothing() -> None:
    """Tell nobody."""


@contextmanager
def dry_run(
    *,
    compiling: bool = False,
    most_launches: int = 1000,
    number: Callable[[torch.Tensor], int] | None = None,
    on_launch: Callable[[], None] = _nothing,
) -> Iterator[DryRun]:
    """Let no Triton kernel be launched inside the block, in any thread, and log what would have been.

    Everything else runs: torch's operators, hooks, grids, heuristics; results of kernels are whatever memory held.
    Autotuned kernels are pinned, as nothing can be benchmarked.
    Enter `observed` inside the block, so that the forced launch is what is seen; it has no launches to prove then.
    Without `compiling`, production gets an object in the place of the compiled kernel that raises when it is looked at.

    Args:
        compiling: Compile, or read from Triton's cache, what would be launched.
        most_launches: More, and the block is taken for a loop that waits for a result.
        number: Tells storages apart, for the aliases of pointers, in the place of the order of their first use.
        on_launch: Called when a launch was kept back: from now on memory holds what production would not find there.

    Raises:
        DryRunError: The kernels are interpreted: the interpreter specialises and compiles nothing.
    """
    if knobs.runtime.interpret:
        _interpreted()
    run = _Running(
        compiling=compiling, most_launches=most_launches, number=number or Storages().number, on_launch=on_launch
    )
    with ExitStack() as undo:
        run.install(undo)
        undo.enter_context(pinned())
        yield run.log


def _interpreted(*_args: Any, **_keywords: Any) -> None:
    raise DryRunError(
        "the Triton interpreter specialises and compiles nothing, so there is no dry run of its launches; "
        "use a device, or a process without TRITON_INTERPRET=1 and a fake driver"
    )


class NotCompiled:
    """Stands for a compiled kernel where nothing was compiled."""

    def __getattr__(self, name: str) -> Any:
        """Refuse to answer: whatever was told would be wrong."""
        raise DryRunError(f"{name} of a compiled kernel was asked for, and a dry run compiles nothing")


@dataclass
class _Seen:
    """What Triton told on the way through one launch."""

    arguments: dict[str, Any] = field(default_factory=dict)
    specialisation: Specialisation | None = None
    compiled: CompiledKernel | None = None


class _Running:
    """State of one `dry_run` block."""

    def __init__(
        self,
        *,
        compiling: bool,
        most_launches: int,
        number: Callable[[torch.Tensor], int],
        on_launch: Callable[[], None],
    ) -> None:
        self.compiling = compiling
        self.number = number
        self.on_launch = on_launch
        self.most_launches = most_launches
        self.log = DryRun()
        self.local = threading.local()  # backward kernels are launched by a thread of autograd
        self.lock = threading.Lock()
        self.replaced: set[int] = set()

    def install(self, undo: ExitStack) -> None:
        """Patch Triton; `undo` takes it all back."""
        self.undo = undo
        for cls in defining(JITFunction, "run"):
            patch(undo, cls, "run", self._run(vars(cls)["run"]))
        for cls in defining(JITFunction, "_do_compile"):
            patch(undo, cls, "_do_compile", self._compile(vars(cls)["_do_compile"]))
        interpreter = sys.modules.get("triton.runtime.interpreter")
        if interpreter is not None:
            patch(undo, interpreter.InterpretedFunction, "run", _interpreted)
        pass_through(undo)
        # What goes past the kernel objects ends here.
        patch(undo, CompiledKernel, "run", property(lambda _compiled: self._stray))
        patch(undo, CompiledKernel, "launch_metadata", lambda *_launch: None)
        patch(undo, CompiledKernel, "__getitem__", lambda _compiled, _grid: self._stray)

    def _run(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(jit: Any, *args: Any, grid: Any, warmup: bool, **keywords: Any) -> Any:
            self._replace_caches(jit)
            self.local.seen = seen = _Seen()
            try:
                made = original(jit, *args, grid=grid, warmup=True, **keywords)
            finally:
                self.local.seen = None
            if seen.specialisation is None:
                raise DryRunError(f"triton did not tell how it specialises {jit.fn.__name__}: no triton that we know")
            bound = seen.arguments
            places = None if warmup else sizes(grid(bound) if callable(grid) else grid)
            arguments = Arguments.of(bound, {jit.params[number].name for number in jit.constexprs}, self._pointer)
            self._add(
                DryLaunch(
                    specialisation=seen.specialisation,
                    grid=places,
                    arguments=arguments,
                    keywords=MappingProxyType({name: v for name, v in keywords.items() if name not in bound}),
                    hooks=(*tuning.running_hooks.get(), *jit.pre_run_hooks),
                    compiled=seen.compiled,
                )
            )
            return self._stand_in() if made is None else made

        return run

    def _compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def do_compile(jit: Any, *given: Any, **named: Any) -> Any:
            key, signature, device, constexprs, options, attrs, *_ = given
            seen = self._seen()
            if seen is None:  # asked for past `run`
                self._stray()
                return original(jit, *given, **named) if self.compiling else None
            source = jit.ASTSource(jit, signature, constexprs, attrs)
            kernels, _, target, *_ = jit.device_caches[device]
            seen.specialisation = specialisation(source, options, target)
            if self.compiling:
                known = kernels.own.get(key)
                seen.compiled = known if isinstance(known, CompiledKernel) else original(jit, *given, **named)
            return seen.compiled

        return do_compile

    def _add(self, launch: DryLaunch) -> None:
        with self.lock:
            self.log.launches.append(launch)
        if len(self.log.launches) > self.most_launches:
            raise DryRunError(
                f"more than {self.most_launches} launches in a dry run: "
                "production seems to wait for a result, which nothing computes"
            )
        self.on_launch()

    def _stand_in(self) -> NotCompiled:
        made = NotCompiled()
        self.log.stand_ins.append(weakref.ref(made))
        return made

    def _pointer(self, name: str, tensor: torch.Tensor) -> Pointer:
        address = tensor.data_ptr()
        return Pointer(
            name=name,
            alias=self.number(tensor),
            offset_bytes=address - tensor.untyped_storage().data_ptr(),
            alignment_bytes=min(address & -address, _LARGEST_ALIGNMENT_BYTES) or _LARGEST_ALIGNMENT_BYTES,
        )

    def _replace_caches(self, jit: Any) -> None:
        with self.lock:
            if id(jit) not in self.replaced:
                self.replaced.add(id(jit))  # `undo` keeps the object, so that its id cannot be taken by another one
                patch(self.undo, jit, "device_caches", DryCaches(jit, self._bound))

    def _bound(self, arguments: dict[str, Any]) -> None:
        seen = self._seen()
        if seen is not None:
            seen.arguments = arguments

    def _seen(self) -> _Seen | None:
        """Return what this thread's launch has told so far; None outside of a launch."""
        return getattr(self.local, "seen", None)

    def _stray(self, *_args: Any, **_keywords: Any) -> None:
        self.log.strays += 1


def specialisation(source: Any, options: Any, target: GPUTarget) -> Specialisation:
    """Return what `triton.compile` would make of a source, with the key under which it caches it."""
    backend = make_backend(target)
    # As `triton.compile` does before it computes the key.
    parsed = backend.parse_options({**vars(options), **source.parse_options()})
    key = get_cache_key(source, backend, parsed, env_vars=get_cache_invalidating_env_vars())
    inspect_stages = getattr(knobs.runtime, "add_stages_inspection_hook", None)
    if inspect_stages is not None:
        key += inspect_stages()[0]
    return Specialisation(source, options, target, hashlib.sha256(key.encode()).hexdigest())


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tuple | list):
        for number, part in enumerate(value):
            yield from _flat(f"{name}[{number}]", part)
    elif hasattr(value, "block_shape") and hasattr(value, "base"):  # tensor descriptors of Triton and Gluon
        for part, own in vars(value).items():
            if part != "layout":  # Gluon's, which is told by the signature
                yield from _flat(f"{name}.{part}", own)
    elif not isinstance(value, torch.Tensor) and isinstance(getattr(value, "base", None), torch.Tensor):
        yield from _flat(f"{name}.base", value.base)  # a pointer that was reinterpreted; its type is in the signature
    else:
        yield name, value
