"""What the summary tells of configs beside their outcomes."""

from collections import Counter
from collections.abc import Iterable
from textwrap import wrap

from pytest_kernelqual.model.profiles import NO_INPUT_TAKES_IT
from pytest_kernelqual.model.record import CaseRecord, InputSetRecord, KernelRecord
from pytest_kernelqual.report.phrases import and_more, clean, counted

_LONGEST = 400
_LONGEST_NAME = 60
_MOST_LINES = 20


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


def aside(case: CaseRecord) -> list[InputSetRecord]:
    """Return the input sets of a case that were put aside, without those of which that is no news.

    That no input takes a profile which the spec did not ask for by its name says nothing about the kernel.
    """
    return [
        one
        for one in case.input_sets
        if one.set_aside and (one.declared or not one.set_aside.startswith(NO_INPUT_TAKES_IT))
    ]


def put_aside(kernels: Iterable[KernelRecord], width: int) -> str:
    """Return the profiles and probes on which nothing was compared, in how many cases of a kernel, and why."""
    lines = []
    for kernel in kernels:
        reasons: dict[str, list[str]] = {}
        for one in (one for case in kernel.cases for one in aside(case)):
            reasons.setdefault(one.profile, []).append(one.set_aside)
        alike: dict[tuple[int, str], list[str]] = {}
        for profile, told in reasons.items():
            others = len({*told}) - 1
            why = told[0] + (f" (and {counted(others, 'other reason')})" if others else "")
            alike.setdefault((len(told), why), []).append(profile)
        of = counted(len(kernel.cases), "case")
        lines += [
            f"{clean(kernel.kernel, _LONGEST_NAME)}: {', '.join(profiles)} ({count} of {of}): {why}"
            for (count, why), profiles in alike.items()
        ]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"and {len(lines) - _MOST_LINES} more; the JSON report holds them all"]
    wrapped = [
        "\n".join(wrap(clean(line, _LONGEST), width, initial_indent="  ", subsequent_indent="      ")) for line in lines
    ]
    return "\n".join(["put aside: input sets on which nothing was compared", *wrapped]) if wrapped else ""


def _section(title: str, lines: list[str], width: int) -> str:
    return "\n".join([title, *(f"  {clean(line, width - 2)}" for line in lines)]) if lines else ""
