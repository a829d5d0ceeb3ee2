"""Compiled code of launches as text, and what asks for it."""

from typing import Literal

from msgspec import Struct, field

from pytest_kernelqual.model.config import Scalar


class LaunchCode(Struct, frozen=True, kw_only=True):
    """One launch of a Triton kernel and its compiled code."""

    kernel: str
    grid: tuple[int, ...] | None = None
    """Programs by axis."""
    resources: dict[str, int] = field(default_factory=dict)
    stages: dict[str, str] = field(default_factory=dict)
    """Texts by stage, in the order of compiling: `ttir`, `ttgir`, then `ptx` and `sass`, or `amdgcn`."""


class ReadCode(Struct, frozen=True, tag=True, kw_only=True):
    """Compile what the fixed launch and a candidate would launch, and send the code; replaces what was open."""

    path: str
    spec: str
    case: str
    profile: str
    """Of the input set: layout probes may lead to other code."""
    seed_index: int
    config: dict[str, Scalar]


class CodeRead(Struct, frozen=True, tag=True, kw_only=True):
    """Answers `ReadCode`."""

    fixed: list[LaunchCode] = field(default_factory=list)
    candidate: list[LaunchCode] = field(default_factory=list)
    order: Literal["equal", "differs", "unknown"] = "unknown"
    """The arithmetic order of the one against the other."""
    order_reasons: list[str] = field(default_factory=list)
    problem: str = ""
    """Why one of them has no code."""
