"""Input profiles and layout probes: by which values and in which memory a case is run, and in which order."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from msgspec import Struct

NORMAL = "normal"
"""The profile of inputs as the builder asks for them."""

# In the order in which they run: what has told most of differing configs comes first, since each costs the same.
FLOAT_PROFILES = (
    "cancelling", "mixed", "exponents", "constant", "equal_rows", "ties", "denormals", "boundaries", "one_hot",
    "nonfinite",
)  # fmt: skip
ORDERS = ("sorted", "reversed")
INTEGER_PROFILES = ("mixed", "extremes", "repeats", *ORDERS)
PROFILES = (
    "cancelling", "mixed", "extremes", "exponents", "repeats", "constant", "equal_rows", "ties", "denormals",
    "boundaries", "one_hot", "sorted", "reversed", "nonfinite",
)  # fmt: skip
ON_REQUEST = "nonfinite"
"""Only a spec can say that its kernel is defined for infinities and NaN."""
NO_INPUT_TAKES_IT = "no input of the case takes it"
"""Begins the reason for which an input set is put aside on which all inputs would be as on the first."""
ALL = "all"
NONE = "none"

LAYOUT_PROBES = ("strided", "misaligned", "beyond_2_31")
"""Other memory for the same values: further input sets of the same case."""
CASE_PROBES = ("more_rows", "last_tile_of_one")
"""Other sizes: cases of their own."""

# Two sets that tell most: the order of arithmetic, and values of each kind at once. The interpreter's order of
# arithmetic is no device's, and its launches are slow.
_DEFAULTS = {"cuda": ("cancelling", "mixed"), "hip": ("cancelling", "mixed"), "interpreter": ()}


class InputSet(Struct, frozen=True):
    """One set of inputs of a case; with the run's seed, enough to make them again."""

    profile: str = NORMAL
    """A profile, or a layout probe: normal values in other memory."""
    seed: int = 0
    """Counts the sets of one profile."""

    def __str__(self) -> str:
        """Name it as records do."""
        return f"{self.profile}/{self.seed}"


FIRST = InputSet()


def input_sets(kind: str, seeds: int, profiles: Sequence[str] | None, probes: Iterable[str]) -> tuple[InputSet, ...]:
    """Return the input sets of a case in the order in which they run.

    First `normal`, which shows most faults and by which the others are compared; then one set for each profile and
    layout probe; further seeds of `normal` tell least of what is new and come last.

    Args:
        kind: Of the device; chooses the profiles where none are given.
        seeds: Sets of `normal`.
        profiles: As given by the spec or the run.
        probes: Of the spec.
    """
    named = _DEFAULTS[kind] if profiles is None else expanded(profiles)
    layouts = [name for name in LAYOUT_PROBES if name in probes]
    return (
        FIRST,
        *(InputSet(name) for name in [*named, *layouts]),
        *(InputSet(seed=seed) for seed in range(1, seeds)),
    )


def expanded(names: Iterable[str]) -> tuple[str, ...]:
    """Return the profiles meant by names, in the order in which they run."""
    given = set(names)
    if ALL in given:
        given |= {*PROFILES} - {ON_REQUEST}
    return tuple(name for name in PROFILES if name in given)


def profiles_problem(names: Iterable[str], *, of_spec: bool) -> str | None:
    """Say which name is no profile, or None; `none` and `all` are names too, and `normal` is always run."""
    known = (*PROFILES, ALL, NONE, NORMAL)
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 1)
            return f"no profile is called {name!r}; " + (
                f"did you mean {near[0]!r}?" if near else f"use {', '.join(known)}"
            )
        if name == ON_REQUEST and not of_spec:
            return f"{name} is for specs that name it: kernel_spec(profiles=[..., {name!r}])"
    return None
