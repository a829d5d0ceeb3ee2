"""The scripts that `kernelqual repro` writes."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest_kernelqual
from pytest_kernelqual.model.record import Environment
from pytest_kernelqual.report.choosing import Chosen, Declared
from pytest_kernelqual.report.phrases import clean

_LONGEST = 300
_STANDALONE = Path(pytest_kernelqual.__file__).parent / "on_device" / "standalone.py"
_CONSTANTS = re.compile(r"^# Constants\.\n.*?^# End of constants\.\n", re.MULTILINE | re.DOTALL)
_REPLAY = '''\
"""Run one candidate of a spec and the fixed launch on saved inputs, and compare their bytes."""

import os
import sys
from pathlib import Path

from pytest_kernelqual import replay

status = replay(
    spec={spec},
    case={case},
    config={config},
    inputs=Path(__file__).with_name("inputs.pt"),
    device={device},
    input_set={input_set},
    seed={seed},
    repeats={repeats},
)
sys.stdout.flush()
sys.stderr.flush()
os._exit(status)  # no teardown: a device that faulted may hang in it
'''


def folder_name(chosen: Chosen) -> str:
    """Return a name for the folder of a script that any file system takes."""
    told = f"{chosen.kernel.kernel}-{chosen.case.id}-{chosen.candidate.id}"
    return "repro-" + re.sub(r"[^A-Za-z0-9_.]+", "-", told)[:100].strip("-.")


def standalone(chosen: Chosen, where: Declared, environment: Environment, constants: str) -> str:
    """Return the script that needs torch, triton and the kernel's module alone."""
    text = _CONSTANTS.sub(lambda _: f"{constants}\n", _STANDALONE.read_text(encoding="ascii"))
    needs = "torch, triton and the kernel's own module"
    return _about(chosen, where, environment, needs) + text


def replaying(chosen: Chosen, where: Declared, environment: Environment, device: str) -> str:
    """Return the script that builds the launch by the spec."""
    script = _REPLAY.format(
        spec=ascii(f"{where.path}::{where.spec}"),
        case=ascii(chosen.case.id),
        config=ascii(chosen.candidate.config),
        device=ascii(device),
        input_set=ascii(str(where.input_set)),
        seed=environment.seed,
        repeats=environment.repeats or None,
    )
    return _about(chosen, where, environment, "torch, triton, pytest-kernelqual (not pytest) and the spec") + script


def _about(chosen: Chosen, where: Declared, environment: Environment, needs: str) -> str:
    record, device = chosen.candidate, environment.device
    versions = f"torch {environment.torch}, triton {environment.triton}"
    lines = [
        f"{chosen.kernel.kernel}[{chosen.case.id}] under {record.id}: {record.outcome}",
        record.reason,
        f"Seen on {device.name} ({device.kind}, {device.architecture}), {versions}.",
        f"Inputs: {where.input_set} of seed {environment.seed}.",
        f"Written by kernelqual {version('pytest-kernelqual')}; needs {needs}.",
        "Exit status: 1 the candidate fails or leaves other bytes (or a signal), 0 it does not, 2 nothing can be told.",
    ]
    return "".join(f"# {clean(line, _LONGEST)}\n" for line in lines if line)
