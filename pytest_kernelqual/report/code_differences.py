"""Compiled code of a candidate against the fixed launch's: what differs, without paths and line numbers."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from difflib import unified_diff

from msgspec import Struct, field

from pytest_kernelqual.model.code import CodeRead, LaunchCode

# A difference of longer texts takes minutes to find, and nobody reads it.
_MOST_LINES = 20_000
_CONTEXT = 1

_LOCATION = re.compile(r' loc\((?:#loc\d*|unknown|"[^"]*"(?:\(#loc\d*\))?)\)')
_OPERATION = re.compile(r'^\s*(?:%[^=]*= )?"?([a-z_]+\.[a-z_0-9.]+)')
_PREDICATE = re.compile(r"^@!?%?\w+\s+")
_INSTRUCTION = re.compile(r"^[A-Za-z_][\w.:]*$")
_SASS_ADDRESS = re.compile(r"/\*[0-9a-f]+\*/")
_NOISE = re.compile(r"\.(loc|file|cfi_\w+)\b|\$L__(tmp|func)|\.Ltmp|\.Lfunc|\.headerflags|\.elftype")


class StageDifference(Struct, frozen=True, kw_only=True):
    """One stage of compiling."""

    stage: str
    removed: int
    """Lines of the fixed launch that the candidate has not."""
    added: int
    """Lines of the candidate that the fixed launch has not."""
    operations: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Operations or instructions of which there are not as many: of the fixed launch, of the candidate."""
    diff: list[str] = field(default_factory=list)
    """Lines of a unified difference; empty for code of more than 20,000 lines."""


class LaunchDifference(Struct, frozen=True, kw_only=True):
    """One launch of a kernel."""

    kernel: str
    grid: tuple[tuple[int, ...] | None, tuple[int, ...] | None]
    """Of the fixed launch, of the candidate."""
    resources: dict[str, tuple[int | None, int | None]]
    """The same of what the code takes."""
    stages: list[StageDifference]


class CodeDifference(Struct, frozen=True, kw_only=True):
    """All launches of a case."""

    target: str
    """What was compiled for."""
    order: str
    """Whether the arithmetic order is the same: `equal`, `differs` or `unknown`."""
    order_reasons: list[str]
    launches: list[LaunchDifference]
    unpaired: list[str]
    """Kernels that only one of the two launches, or launches more often."""


def code_difference(target: str, code: CodeRead) -> CodeDifference:
    """Compare the launches of both in their order."""
    pairs, unpaired = [], []
    for number in range(max(len(code.fixed), len(code.candidate))):
        sides = [side[number] if number < len(side) else None for side in (code.fixed, code.candidate)]
        fixed, own = sides
        if fixed is not None and own is not None and fixed.kernel == own.kernel:
            pairs.append(_launch(fixed, own))
        else:
            unpaired += [one.kernel for one in sides if one is not None]
    return CodeDifference(
        target=target, order=code.order, order_reasons=code.order_reasons, launches=pairs, unpaired=unpaired
    )


def _launch(fixed: LaunchCode, own: LaunchCode) -> LaunchDifference:
    return LaunchDifference(
        kernel=own.kernel,
        grid=(fixed.grid, own.grid),
        resources={
            name: (fixed.resources.get(name), own.resources.get(name)) for name in {**fixed.resources, **own.resources}
        },
        stages=[_stage(name, fixed.stages[name], own.stages[name]) for name in own.stages if name in fixed.stages],
    )


def _stage(name: str, fixed: str, own: str) -> StageDifference:
    read, operation = _READERS.get(name, (_assembly, _instruction))
    texts = [[*read(fixed)], [*read(own)]]
    counts = [Counter(filter(None, map(operation, lines))) for lines in texts]
    both = [Counter(lines) for lines in texts]
    diff: list[str] = []
    if texts[0] != texts[1] and max(map(len, texts)) <= _MOST_LINES:
        diff = [*unified_diff(texts[0], texts[1], "fixed", "candidate", lineterm="", n=_CONTEXT)][2:]
    return StageDifference(
        stage=name,
        removed=(both[0] - both[1]).total(),
        added=(both[1] - both[0]).total(),
        operations={
            one: (counts[0][one], counts[1][one])
            for one in sorted(counts[0] | counts[1])
            if counts[0][one] != counts[1][one]
        },
        diff=diff,
    )


def _ir(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.strip() and not line.startswith("#loc"):
            yield _LOCATION.sub("", line).rstrip()


def _operation(line: str) -> str:
    found = _OPERATION.match(line)
    return found.group(1) if found else ""


def _assembly(text: str) -> Iterator[str]:
    """Yield the lines of PTX, SASS or AMD's assembly that are for the machine."""
    for line in text.splitlines():
        if re.match(r"\s*\.section\s+\"?\.debug|//-+ SYMBOLS", line):
            return
        bare = _SASS_ADDRESS.sub("", re.split(r"//|;  | ; |^; ", line)[0]).strip()
        if bare and not _NOISE.match(bare) and bare not in ("NOP;", "NOP ;"):
            yield " ".join(bare.split())


def _instruction(line: str) -> str:
    words = _PREDICATE.sub("", line).split()
    name = words[0].rstrip(";,") if words else ""
    return name if _INSTRUCTION.match(name) and not name.endswith(":") else ""


_READERS: dict[str, tuple[Callable[[str], Iterator[str]], Callable[[str], str]]] = {
    "ttir": (_ir, _operation),
    "ttgir": (_ir, _operation),
}
