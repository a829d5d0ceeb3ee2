"""Parameters of candidates that change nothing in what is launched."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pytest_kernelqual.model.config import Config, Scalar


class Launched(NamedTuple):
    """One candidate of a case, and what it launches."""

    config: Mapping[str, Scalar]
    programs: tuple[str, ...]
    """Digests by input set; empty where they are not known."""
    ran: bool = True
    """Whether there is a program at all: what does not compile, or is ruled out, has none."""


def dead_axes(candidates: Sequence[Launched]) -> list[str]:
    """Return the parameters of which no change, all others kept, changes the program; sorted.

    A parameter is named only where it was changed at least once with a known program before and after.
    One that differs only between candidates which do not run is not known to do nothing.
    """
    names = sorted({name for candidate in candidates for name in candidate.config})
    return [name for name in names if _is_dead(name, candidates)]


def _is_dead(name: str, candidates: Sequence[Launched]) -> bool:
    compared = False
    for group in _differing_in(name, candidates):
        if not any(candidate.ran for candidate in group):
            continue
        programs = {candidate.programs for candidate in group}
        if len(programs) > 1 or () in programs:
            return False
        compared = True
    return compared


def _differing_in(name: str, candidates: Sequence[Launched]) -> list[list[Launched]]:
    """Return groups of two or more candidates that differ in one parameter alone."""
    groups: dict[Config, list[Launched]] = {}
    for candidate in candidates:
        if name in candidate.config:
            rest = Config({other: value for other, value in candidate.config.items() if other != name})
            groups.setdefault(rest, []).append(candidate)
    return [group for group in groups.values() if len(group) > 1]
