"""What compiled launches keep in memory for want of registers, as text."""

from collections.abc import Iterable

from pytest_kernelqual.model.target_record import TargetLaunch


def spills_of(launches: Iterable[tuple[str, TargetLaunch]], what: str) -> list[str]:
    """Return a line for spilled registers, and one for stacks of which it is not known what they hold.

    Args:
        launches: Launches on one target by name; those that do not fit do not count.
        what: How they are called, in the plural.
    """
    fitting = [(name, one.resources) for name, one in launches if one.outcome == "fits"]
    spills = [(taken["spill_bytes"], name) for name, taken in fitting if taken.get("spill_bytes")]
    stacks = [(taken.get("stack_bytes", 0), name) for name, taken in fitting if "spill_bytes" not in taken]
    lines = []
    for do, found in (("spill registers", spills), ("have a stack, for spilled registers or else", stacks)):
        using = [one for one in found if one[0]]
        if using:
            most_bytes, name = max(using)
            count = len({name for _, name in using})
            lines.append(f"{what} that {do}: {count}, up to {most_bytes} bytes of a thread ({name})")
    return lines
