"""What the summary tells of configs beside their outcomes."""

from collections import Counter
from collections.abc import Iterable

from pytest_kernelqual.model.record import KernelRecord
from pytest_kernelqual.report.phrases import and_more, clean

_LONGEST_NAME = 60


def dead_axes(kernels: Iterable[KernelRecord], width: int) -> str:
    """Return which parameters change nothing in what is launched, and in how many cases of a kernel."""
    lines = []
    for kernel in kernels:
        counts = Counter(name for case in kernel.cases for name in case.dead_axes)
        cases = f"{len(kernel.cases)} case{'' if len(kernel.cases) == 1 else 's'}"
        told = ", ".join(f"{name} ({count} of {cases})" for name, count in counts.items())
        lines += [f"{clean(kernel.kernel, _LONGEST_NAME)}: {told}"] if told else []
    return _section("dead axes, which change nothing in what is launched", lines, width)


def fragile(kernels: Iterable[KernelRecord], width: int) -> str:
    """Return the candidates whose equal bytes may be luck, by what differs in their arithmetic order."""
    groups: dict[tuple[str, str], dict[str, None]] = {}
    for kernel in kernels:
        for record in (record for case in kernel.cases for record in case.candidates if record.fragile):
            group = groups.setdefault((clean(kernel.kernel, _LONGEST_NAME), record.fragile[0]), {})
            group[clean(record.id, _LONGEST_NAME)] = None
    lines = [f"{name}: {and_more(list(ids))}: {reason}" for (name, reason), ids in groups.items()]
    return _section("fragile: equal bytes, and another arithmetic order or an unknown one", lines, width)


def _section(title: str, lines: list[str], width: int) -> str:
    return "\n".join([title, *(f"  {clean(line, width - 2)}" for line in lines)]) if lines else ""
