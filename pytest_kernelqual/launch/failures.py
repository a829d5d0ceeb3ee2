"""How a launch failed: exceptions to outcomes."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from triton.compiler.errors import CompilationError
from triton.runtime.errors import InterpreterError, OutOfResources, PTXASError

from pytest_kernelqual.errors import UnsupportedConfigError
from pytest_kernelqual.launch.compiler_words import stable
from pytest_kernelqual.model.outcome import Outcome, Phase
from pytest_kernelqual.model.values import said

Failure = tuple[Outcome, str, dict[str, Any]]

_LONGEST_REASON = 300

# After one of these every later call to the device fails in this process.
_FAULT = re.compile(
    r"illegal memory access|illegal address|unspecified launch failure|misaligned address|device-side assert|"
    r"illegal instruction|invalid program counter|hardware stack error|launch timed out|uncorrectable|"
    r"memory access fault|hipErrorLaunchFailure|HSA_STATUS_ERROR",
    re.IGNORECASE,
)
_OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|ALLOC_FAILED|MemoryAllocation", re.IGNORECASE)
_REFUSED = re.compile(
    r"Triton Error \[|invalid argument|invalid configuration|invalid resource handle|invalid device function|"
    r"no kernel image|kernel image is invalid|operation not supported",
    re.IGNORECASE,
)
_TOO_MANY_RESOURCES = re.compile(r"too many resources requested|launch out of resources", re.IGNORECASE)
_INSUFFICIENT_REGISTERS = re.compile(
    r"insufficient registers? \((\d+)\)(?:.*?(\d+) or higher)?", re.IGNORECASE | re.DOTALL
)
_REGISTER_ALLOCATION = re.compile(r"register allocation failed with register count of '?(\d+)", re.IGNORECASE)
_UNKNOWN_OPTION = re.compile(r"Keyword argument (\w+) was specified but unrecognised")


def classify(error: BaseException, phase: Phase | None) -> Failure | None:
    """Name the outcome of a launch that raised, with one line of reason and JSON facts; None for what is not known.

    A `fault` leaves the process without a usable device.
    `detail` has `error`, and for `out_of_resources` also `kind`, `required` and `limit` (None where not told).
    """
    for one in _causes(error):
        found = _known(one)
        if found is not None:
            outcome, reason, detail = found
            told = stable(reason) if outcome == "compile_error" else reason
            return outcome, told[:_LONGEST_REASON], {"error": type(one).__name__, **detail}
    if phase == "compile" and isinstance(error, Exception):
        return "compile_error", stable(_line(error)), {"error": type(error).__name__}
    return None


def _known(error: BaseException) -> Failure | None:
    named = next((name for kind, name in _BY_TYPE if isinstance(error, kind)), None)
    return None if named is None else named(error)


def _of_device(error: RuntimeError) -> Failure | None:
    """Name what torch and Triton raise from driver calls."""
    text = said(error)
    if _FAULT.search(text):
        return "fault", _line(error), {}
    if _OUT_OF_MEMORY.search(text):
        return _out_of_memory(error)
    if _TOO_MANY_RESOURCES.search(text):
        return "out_of_resources", _line(error), {"kind": "registers or threads", "required": None, "limit": None}
    if _REFUSED.search(text):
        return "launch_error", _line(error), {}
    if "active drivers" in text:
        return "not_run", f"there is no GPU driver, and the interpreter does not run this kernel ({_line(error)})", {}
    # Of the errors that torch reads from the device, those named above leave it usable; of others nothing is known.
    return ("fault", _line(error), {}) if isinstance(error, torch.AcceleratorError) else None


def _of_options(error: AssertionError | KeyError | ValueError) -> Failure | None:
    """Name how the compiler refuses launch options, which it does before it begins to compile."""
    if "num_warps must be a power of 2" in said(error) or "parse_options" in _functions(error):
        return "compile_error", _line(error), {}
    unknown = _UNKNOWN_OPTION.search(said(error))
    return unknown and ("unsupported", f"this device's compiler has no launch option {unknown.group(1)!r}", {})


def _out_of_memory(error: BaseException) -> Failure:
    return "not_run", f"out of memory: our own ({_line(error)})", {}


def _out_of_resources(kind: str, required: int | None, limit: int | None) -> Failure:
    numbers = f": required {required}, limit {limit}" if required is not None else f": limit {limit}"
    return "out_of_resources", f"{kind}{numbers}", {"kind": kind, "required": required, "limit": limit}


def _ptxas(error: PTXASError) -> Failure:
    text = said(error)
    found = _INSUFFICIENT_REGISTERS.search(text)
    if found:
        return _out_of_resources("registers", int(found.group(2)) if found.group(2) else None, int(found.group(1)))
    found = _REGISTER_ALLOCATION.search(text)
    if found:
        return _out_of_resources("registers", None, int(found.group(1)))
    told = next((line for line in text.splitlines() if re.match(r"ptxas\b.*\b(fatal|error)\b", line.strip())), None)
    return "compile_error", f"PTXASError: {' '.join(told.split())}" if told else _line(error), {}


def _compilation_reason(error: CompilationError) -> str:
    """Return what the innermost compilation error says; the outer ones only show the calls that lead to it."""
    inner = [one for one in _causes(error) if isinstance(one, CompilationError)][-1]
    line = getattr(inner.node, "lineno", None)
    told = _first_line(inner.error_message or "") or next(
        (_line(one) for one in _causes(error) if not isinstance(one, CompilationError)), "no message"
    )
    return f"{type(inner).__name__}: {told}" + (f" (line {line} of the function)" if line is not None else "")


def _interpreted(error: InterpreterError) -> Failure:
    """Name what was raised inside the body of an interpreted kernel."""
    cause = [*_causes(error)][-1]
    reason = _line(cause)
    if isinstance(cause, MemoryError):
        return _out_of_memory(cause)
    if isinstance(cause, NotImplementedError) or "InterpreterBuilder" in said(cause):
        return "not_run", f"the interpreter cannot run it: {reason}", {}
    if "only 0-dimensional arrays can be converted" in said(cause):
        # Triton 3.6 makes numbers of arrays of one element for bounds of loops, which numpy 2.4 refuses.
        told = "this triton's interpreter does not work with this numpy; install 'numpy<2.4' or a newer triton"
        return "not_run", f"the interpreter cannot run it: {told} ({reason})", {}
    if "_new_static_assert" in _functions(cause):
        # The compiler would have refused it before any launch.
        return "compile_error", f"static_assert: {_first_line(said(cause)) or 'failed'}", {}
    return "launch_error", f"in the kernel body: {reason}", {}


def _functions(error: BaseException) -> set[str]:
    names, step = set(), error.__traceback__
    while step is not None:
        names.add(step.tb_frame.f_code.co_name)
        step = step.tb_next
    return names


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what it was explicitly raised from, outermost first."""
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in seen:
        seen.append(one)
        yield one
        one = one.__cause__


def _line(error: BaseException) -> str:
    text = _first_line(said(error))
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__)[:_LONGEST_REASON]


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


_BY_TYPE: tuple[tuple[Any, Callable[[Any], Failure | None]], ...] = (
    (UnsupportedConfigError, lambda error: ("unsupported", str(error), {})),
    (OutOfResources, lambda error: _out_of_resources(str(error.name), error.required, error.limit)),
    (PTXASError, _ptxas),
    (CompilationError, lambda error: ("compile_error", _compilation_reason(error), {})),
    (InterpreterError, _interpreted),
    (MemoryError | torch.OutOfMemoryError, _out_of_memory),
    (RuntimeError, _of_device),
    (AssertionError | KeyError | ValueError, _of_options),
)
