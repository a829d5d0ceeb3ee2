"""The content of one file of `committed_configs/`, and its canonical JSON."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field, structs

from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.model.case import AxisValue
from pytest_kernelqual.model.config import Scalar
from pytest_kernelqual.model.outcome import Cache, Evidence

COMMITTED_SCHEMA: Literal["kernelqual/committed-configs/1"] = "kernelqual/committed-configs/1"

LONGEST_TEXT = 1000

Key = Mapping[str, AxisValue]
Digest = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]
Date = Annotated[str, Meta(pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])\Z")]
Positive = Annotated[float, Meta(gt=0)]
Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT)]


class CommittedDevice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the rows of a file were measured on; all four must be equal for a file to be used."""

    vendor: Name
    """`nvidia`, `amd`."""
    name: Name
    """Product name as the runtime tells it, for example `NVIDIA H200`."""
    architecture: Name
    """`sm_90`, `gfx942`."""
    compute_units: Annotated[int, Meta(ge=0, le=1 << 31)]


class Toolchain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Versions with which rows were measured; provenance, never a reason to refuse."""

    driver: Text
    runtime: Text
    torch: Text
    triton: Text
    python: Text


class Times(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Times of one launch in microseconds, for diagnosis only."""

    fixed: Positive
    committed: Positive | None = None
    """None where the fixed launch was kept."""


class Row(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The config that was chosen for one key, and how sure that is."""

    key: dict[str, Any]
    """The part of a case by which the row is chosen: names and axis values."""
    config: dict[str, Scalar] | None
    """None is an honest null: no candidate beat the fixed launch."""
    evidence: Evidence | None = None
    """How the equality of the bytes was shown; None where the fixed launch was kept."""
    output: Digest | None = None
    """Digest of the committed config's output; None where the fixed launch was kept, or met only within tolerance."""
    fixed_output: Digest | None = None
    """Digest of the fixed launch's output: shows when production's own bytes changed."""
    fixed_inputs: Digest | None = None
    """Digest of the inputs that gave it: other inputs give other bytes."""
    times_us: Times | None = None
    speed_up: Positive | None = None
    """Time of the fixed launch divided by time of the committed config: the minimum of `speed_up_samples`."""
    speed_up_samples: list[Positive] = field(default_factory=list)
    """One ratio for each process that measured it."""
    method: Text = ""
    """How it was timed: `graph`, `events`."""
    cache: Cache | None = None
    """State of the L2 cache while it was timed."""
    note: Text = ""
    """For people, for example `fixed launch kept, best challenger +0.4 %`."""
    measured_at: Date
    """Day of the measurement in UTC, ISO 8601."""
    space: Digest | None = None
    """Selection-space token that the row was chosen under; None: the file's."""
    toolchain: Toolchain | None = None
    """Versions that the row was measured with; None: the file's."""


class CommittedFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`committed_configs/<kernel>/<device>.json`.

    `space` and `toolchain` are those of the latest update; a row that it did not measure keeps its own.
    """

    schema: Literal["kernelqual/committed-configs/1"] = COMMITTED_SCHEMA
    kernel: Name
    device: CommittedDevice
    space: Digest
    toolchain: Toolchain
    rows: list[Row]

    def space_of(self, row: Row) -> str:
        """Return the selection-space token that a row was chosen under."""
        return row.space or self.space

    def toolchain_of(self, row: Row) -> Toolchain:
        """Return the versions that a row was measured with."""
        return row.toolchain or self.toolchain

    def row(self, key: Key) -> Row | None:
        """Return the row of a key, types of its values included, or None."""
        wanted = key_text(key)
        return next((row for row in self.rows if key_text(row.key) == wanted), None)


def key_text(key: Key) -> str:
    """Return the canonical text of a key: equal for equal names, types and values only."""
    return json.dumps(key, sort_keys=True, separators=(",", ":"))


def device_order(device: CommittedDevice) -> tuple[Any, ...]:
    """Return what devices are sorted by: their names first."""
    return device.name, structs.astuple(device)


def key_order(key: Key) -> tuple[Any, ...]:
    """Return what rows are sorted by: numbers in numeric order, kinds of values apart."""
    return tuple((name, _ordered(key[name])) for name in sorted(key))


def canonical(file: CommittedFile) -> CommittedFile:
    """Return the file with its rows in order, and without what they repeat of the file."""
    rows = [
        structs.replace(
            row,
            space=None if row.space == file.space else row.space,
            toolchain=None if row.toolchain == file.toolchain else row.toolchain,
        )
        for row in file.rows
    ]
    return structs.replace(file, rows=sorted(rows, key=lambda row: key_order(row.key)))


def encode(file: CommittedFile) -> bytes:
    """Return the canonical JSON: names sorted, rows in order of their keys, ASCII, a final newline.

    Raises:
        DocumentError: A value has no JSON form.
    """
    try:
        plain = msgspec.to_builtins(canonical(file))
        return json.dumps(plain, allow_nan=False, sort_keys=True, indent=2).encode("ascii") + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise DocumentError(f"committed configs of {file.kernel!a} cannot be written as JSON: {error}") from error


def _ordered(value: Any) -> tuple[Any, ...]:
    if value is None or isinstance(value, bool):
        return (0, -1 if value is None else int(value), "")
    if isinstance(value, int | float):
        return (1, value, repr(value))  # the text keeps 1 and 1.0, 0.0 and -0.0 in one order
    if isinstance(value, str):
        return (2, value, "")
    return (3, tuple(_ordered(item) for item in value), "")
