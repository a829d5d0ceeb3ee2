"""Valid committed files, rows and strategies, from which tests make invalid ones."""

from typing import Any

from hypothesis import strategies as st
from msgspec import structs

from pytest_kernelqual.committed.refusal import Refusal
from pytest_kernelqual.committed.schema import CommittedDevice, CommittedFile, Key, Row, Times, Toolchain, key_text
from pytest_kernelqual.committed.store import Changes, Store, UpdateReport
from pytest_kernelqual.model.config import Scalar

KERNEL = "rms_norm_fwd"
H200 = CommittedDevice(vendor="nvidia", name="NVIDIA H200", architecture="sm_90", compute_units=132)
TOOLCHAIN = Toolchain(driver="570.1", runtime="12.8", torch="2.10.0", triton="3.6.0", python="3.11.9")
NEWER = structs.replace(TOOLCHAIN, triton="3.7.1")
SPACE = f"sha256:{'1' * 64}"
OTHER_SPACE = f"sha256:{'2' * 64}"
OUTPUT = f"sha256:{'a' * 64}"


def row(key: Key, config: dict[str, Scalar] | None = None, speed_up: float = 1.25, **changes: Any) -> Row:
    """Return a row that chose a config; None: `num_warps=8`."""
    made = Row(
        key=dict(key),
        config={"num_warps": 8} if config is None else config,
        evidence="identical_bytes",
        output=OUTPUT,
        fixed_output=OUTPUT,
        times_us=Times(fixed=10.0 * speed_up, committed=10.0),
        speed_up=speed_up,
        speed_up_samples=[speed_up + 0.01, speed_up, speed_up + 0.02],
        method="graph",
        cache="cold",
        measured_at="2026-01-31",
    )
    return structs.replace(made, **changes)


def null_row(key: Key, note: str = "fixed launch kept, best challenger +0.4 %") -> Row:
    """Return an honest null."""
    return Row(key=dict(key), config=None, times_us=Times(fixed=12.5), note=note, measured_at="2026-01-31")


def changes(*rows: Row, drop: tuple[Key, ...] = (), space: str = SPACE, toolchain: Toolchain = TOOLCHAIN) -> Changes:
    """Return an update."""
    return Changes(space=space, toolchain=toolchain, rows=rows, drop=drop)


def file(*rows: Row, kernel: str = KERNEL, space: str = SPACE) -> CommittedFile:
    """Return a file."""
    return CommittedFile(kernel=kernel, device=H200, space=space, toolchain=TOOLCHAIN, rows=list(rows))


def updated(found: UpdateReport | Refusal) -> UpdateReport:
    """Return the report of an update that must succeed."""
    assert isinstance(found, UpdateReport), str(found)
    return found


def stored(store: Store) -> CommittedFile:
    """Return the file that must be there."""
    found = store.read(KERNEL, H200)
    assert isinstance(found, CommittedFile), str(found)
    return found


def refused(found: object) -> Refusal:
    """Return a refusal that must be there, in one line."""
    assert isinstance(found, Refusal)
    assert "\n" not in str(found)
    return found


names = st.sampled_from(["cols", "dtype", "rows", "BLOCK", "num_warps", "größe"])
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
)
axes = scalars | st.lists(scalars, max_size=3)
keys = st.dictionaries(names, axes, max_size=3)
# Launch options have ranges of their own.
configs = st.dictionaries(names.filter(lambda name: name != "num_warps"), scalars, min_size=1, max_size=3)
ratios = st.floats(min_value=1e-3, max_value=1e3)
rows = st.builds(row, keys, configs, ratios) | st.builds(null_row, keys)
many_rows = st.lists(rows, max_size=6, unique_by=lambda item: key_text(item.key))
