"""What is known of a code object that is only compiled: what it takes, what it is, in which order it computes."""

from pathlib import Path

import msgspec
from triton.compiler.compiler import CompiledKernel

from pytest_kernelqual.launch import launched_code, resources
from pytest_kernelqual.launch.resources import read_resources
from pytest_kernelqual.on_device.kept import Kept, source_digest
from pytest_kernelqual.on_device.kept_orders import order_reader
from pytest_kernelqual.on_device.order import order_of


class OrderFacts(msgspec.Struct, frozen=True):
    """The arithmetic order of a code object, as far as two of them are to be compared."""

    digest: str
    """Empty where the order is unknown."""
    grid_axes: tuple[int, ...]
    """Axes of the grid on which the order depends."""


class CodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about one code object."""

    resources: dict[str, int]
    code: str = ""
    """Digest of all that a launch runs of it; empty where it cannot be read."""
    order: OrderFacts | None = None
    """None where nobody asked."""


def known_facts(key: str, *, ordered: bool) -> CodeFacts | None:
    """Return what was found out before about a code object, by its key in Triton's cache; None where nothing was."""
    try:
        return msgspec.json.decode(_kept(key, ordered=ordered).read() or b"", type=CodeFacts)
    except ValueError:
        return None


def read_facts(key: str, compiled: CompiledKernel, *, ordered: bool, log: str = "") -> CodeFacts:
    """Find out about a code object, and keep it; with its order, which is a compilation of its own, if `ordered`.

    `log` is what compiling it printed, if it was compiled now.
    """
    order = order_of(compiled) if ordered else None
    facts = CodeFacts(
        resources=read_resources(compiled, log),
        code=launched_code(compiled) or "",
        order=None if order is None else OrderFacts(order.digest, tuple(sorted(order.grid_axes))),
    )
    _kept(key, ordered=ordered).write(msgspec.json.encode(facts))
    return facts


def _kept(key: str, *, ordered: bool) -> Kept:
    reader = source_digest(Path(resources.__file__))
    return Kept("ordered-facts" if ordered else "facts", key, reader, order_reader() if ordered else "")
