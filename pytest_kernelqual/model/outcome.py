"""Names of outcomes and grades of evidence."""

from typing import Literal, get_args

Outcome = Literal[
    "qualified",
    "within_tolerance",
    "mismatch",
    "baseline_suspect",
    "nondeterministic",
    "incomplete_write",
    "out_of_bounds_write",
    "fault",
    "timeout",
    "out_of_resources",
    "compile_error",
    "launch_error",
    "unsupported",
    "not_run",
]

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

# What a candidate may be used with; equal bytes and the spec's tolerance are never the same thing.
PASSING: frozenset[Outcome] = frozenset({"qualified", "within_tolerance"})

# Strongest last; `interpreted` proves semantics only and is never compared with a device's bytes.
Evidence = Literal["interpreted", "within_tolerance", "identical_bytes", "identical_order", "identical_binary"]

EVIDENCE: tuple[Evidence, ...] = get_args(Evidence)

# What can be required of candidates; the first of these requires nothing.
REQUIRABLE: tuple[Evidence, ...] = EVIDENCE[1:]

# Of a launch that is only compiled: whether it could be made. What cannot be known without running is `unknown`.
TargetOutcome = Literal[
    "fits", "out_of_resources", "compile_error", "launch_error", "timeout", "unsupported", "unknown"
]

# How launches are timed: by replays of a captured graph, or by events around what cannot be captured.
Method = Literal["graph", "events"]

# Where timed launches find their inputs: in memory, or in the L2 cache.
Cache = Literal["cold", "warm"]

# What the tool was doing when a launch ended; a compile that is too slow is recorded, a run that hangs fails.
Phase = Literal["inputs", "compile", "run", "compare", "oracle"]
