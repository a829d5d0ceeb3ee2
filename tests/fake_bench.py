"""Benches on a modelled device, and committed files to go with them."""

from pathlib import Path
from typing import Any

from committed_samples import H200, SPACE, changes, null_row, row, updated
from fake_timing import FIXED, Machine

from pytest_kernelqual.committed.schema import Row, Times
from pytest_kernelqual.committed.store import Store
from pytest_kernelqual.gating.row import Bench, Margins
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import CandidateInfo, CaseInfo, SpecInfo
from pytest_kernelqual.model.record import CandidateRecord

KEY = {"cols": 4096}


def bench(folder: Path, machine: Machine | None, **given: Any) -> Bench:
    """Return a bench of a spec that has every config of the machine, all qualified; None: nothing is timed."""
    times = machine.times if machine is not None else {FIXED: 10.0, "A=1": 9.0}
    configs = [config_of(name) for name in times if name != FIXED]
    case = CaseInfo(id="cols4096", axes={"cols": 4096}, key=KEY)
    candidates = [CandidateInfo(id=config.id, config=dict(config), program=config.id) for config in configs]
    values: dict[str, Any] = {
        "store": Store(folder),
        "kernel": "rms_norm_fwd",
        "device": H200,
        "spec": SpecInfo(name="rms_norm_fwd", line=1, space=SPACE, cases=[case], candidates=candidates),
        "key": KEY,
        "cases": [case],
        "qualify": lambda _case, info: qualified(info),
        "arms": machine.arms if machine is not None else None,
        "fresh": machine.fresh if machine is not None else lambda _configs: [],
        "margins": Margins(),
    }
    return Bench(**{**values, **given})


def qualified(info: CandidateInfo, **known: Any) -> CandidateRecord:
    """Return the record of a candidate that qualified."""
    return CandidateRecord(
        **{"id": info.id, "config": info.config, "outcome": "qualified", "evidence": "identical_bytes", **known}
    )


def config_of(name: str) -> Config:
    """Return the config of an id such as `A=1`."""
    axis, _, value = name.partition("=")
    return Config({axis: int(value)})


def commit(folder: Path, name: str | None, **more: Any) -> Row:
    """Write the committed row of the key; None keeps the fixed launch."""
    made = null_row(KEY) if name is None else row(KEY, dict(config_of(name)), **more)
    updated(Store(folder).update("rms_norm_fwd", H200, changes(made)))
    return made


def stored_times(fixed: float, committed: float) -> dict[str, Any]:
    """Return what a row says that was measured at these times."""
    ratio = round(fixed / committed, 4)
    return {"speed_up": ratio, "speed_up_samples": [ratio] * 3, "times_us": Times(fixed=fixed, committed=committed)}
