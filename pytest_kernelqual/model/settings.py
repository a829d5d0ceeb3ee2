"""What the user set for a run, as the device process needs it too."""

from typing import Literal

from msgspec import Struct

from pytest_kernelqual.model.outcome import Evidence
from pytest_kernelqual.model.profiles import InputSet, input_sets

# The profiles show more than a second set of normal values.
_DEFAULT_SEEDS = 1
_DEFAULT_REPEATS = {"cuda": 4, "hip": 4, "interpreter": 2}

# One launch for each of the two poison patterns.
MIN_REPEATS = 2

ImportMode = Literal["prepend", "append", "importlib"]


class Settings(Struct, frozen=True, kw_only=True):
    """Options of a run after ini values and defaults were applied."""

    root_dir: str
    import_mode: ImportMode = "prepend"
    device: str = "auto"
    """`auto`, `cuda`, `cuda:1`, `hip`, `hip:0` or `interpreter`; `target:cuda:90` in a process that only compiles."""
    visible_device: str | None = None
    """UUID or index of the one device that the device process is shown by its environment; empty: none."""
    slot: int | None = None
    """Place of an xdist worker among those that run: of n devices it takes number `slot` modulo n."""
    device_uuid: str = ""
    """UUID of the device that an earlier device process had, whose place this one takes."""
    seed: int = 0
    seeds: int | None = None
    """Input sets of normal values of each case; None: 1."""
    profiles: tuple[str, ...] | None = None
    """Profiles of further input sets; None: those of the kind of device."""
    repeats: int | None = None
    """Launches of a candidate on each input set; None: 4 on a device, 2 under the interpreter."""
    compile_timeout_s: float = 120.0
    compile_workers: int = 0
    """Processes that compile before a case's first launch; 0: each launch compiles for itself."""
    targets: tuple[str, ...] = ()
    """Compile targets: what every launch would meet on a device that is not there."""
    target_orders: bool = False
    """Compare arithmetic orders on compile targets too, which takes a second compilation of each code object."""
    target_budget_s: float = 10.0
    """How long a process waits for committed configs to be compiled for devices that are not there; 0: never."""
    compile_memory_gib: float = 8.0
    """How much memory one compilation may take there."""
    run_timeout_s: float = 60.0
    start_timeout_s: float = 300.0
    """Limit of starting the device process and importing one spec file."""
    fail_on: tuple[str, ...] = ()
    """Outcomes of candidates that fail beyond those that always do."""
    require_evidence: Evidence | None = None
    """The weakest evidence with which candidates pass."""
    in_process: bool = False
    committed_dir: str = "committed_configs"
    """Folder of committed configs, relative to the root folder."""
    update: bool = False
    """Measure committed configs anew instead of gating them."""
    drift_fails: bool = False
    """A committed row fails where the fixed launch gives other bytes than when the row was committed."""
    provocation: bool = True
    """Dirty shared memory and registers before launches, and run some beside a noise kernel; NVIDIA GPUs only."""
    tolerance_pct: float = 2.0
    """How much slower than the fixed launch a committed config may be."""
    budget_s: float | None = None
    """How long timing may go on; rows beyond are `not_timed`."""

    def effort(self, kind: str, seeds: int | None = None, repeats: int | None = None) -> tuple[int, int]:
        """Return how many input sets, and launches on each: the spec's own, else the run's, else by kind of device."""
        return (
            seeds or self.seeds or _DEFAULT_SEEDS,
            repeats or self.repeats or _DEFAULT_REPEATS[kind],
        )

    def input_sets(
        self,
        kind: str,
        seeds: int | None = None,
        profiles: tuple[str, ...] | None = None,
        probes: tuple[str, ...] = (),
    ) -> tuple[InputSet, ...]:
        """Return the input sets of a case in their order: by the spec, else the run, else the kind of device."""
        count, _ = self.effort(kind, seeds)
        return input_sets(kind, count, self.profiles if profiles is None else profiles, probes)
