"""A device process without torch, for tests of everything around it: load with `-p stub_device`.

The device process, its death, its log and its channel are real; only the kernels are not.
A spec file is one literal: `{spec: {"cases": [id, ...], "candidates": {id: steps}}}`.
Steps are words such as "qualified mismatch": what happens when the candidate is tried, an outcome last.
"""

import ast
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

from pytest_kernelqual.errors import SettingsError
from pytest_kernelqual.model.messages import (
    CandidateInfo,
    CaseInfo,
    Describe,
    Described,
    EnvironmentRead,
    Hello,
    Open,
    Opened,
    Output,
    Progress,
    ReadEnvironment,
    ReadOutput,
    Reply,
    Request,
    SpecInfo,
    Tried,
    Try,
)
from pytest_kernelqual.model.outcome import EVIDENCE, Outcome
from pytest_kernelqual.model.record import DeviceDescriptor, Environment
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.on_device import main as device_main
from pytest_kernelqual.processes import device_process, locks

# The sleep of a kernel that never returns.
FOREVER_S = 3600


def pytest_configure() -> None:
    """Have device processes run this module; their devices are no other run's, so that their locks are in TMPDIR."""
    locks._PLACES = ()
    here = str(Path(__file__).parent)
    device_process._BOOTSTRAP = (
        f"import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); sys.path.insert(0, {here!r}); "
        "import stub_device; stub_device.main()"
    )


def pytest_load_initial_conftests() -> None:
    """Do so before pytest-xdist asks how many devices there are."""
    pytest_configure()


def main() -> None:
    """Run the device process with the stub in place of torch."""
    device_main.prepare = _prepare  # type: ignore[assignment]
    device_main.main()


def _prepare(settings: Settings, send: Callable[[Reply], None]) -> tuple["StubServer", Hello]:
    hello = choose(settings)
    return StubServer(settings, send, hello.kind), hello


def choose(settings: Settings, default: str = "") -> Hello:
    """Behave as the real process does on the devices that STUB_DEVICES names, or a file that it names.

    STUB_LATE: the runtime has looked at the environment before the other devices could be hidden.
    """
    told = os.environ.get("STUB_DEVICES", default)
    there = (Path(told).read_text() if told.startswith("/") else told).split()
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = there if given is None else [name for name in given.split(",") if name in there]
    if settings.device_uuid and settings.device_uuid not in devices:
        raise SettingsError(f"the device {settings.device_uuid} that this process used is gone")
    kind, _, index = settings.device.partition(":")
    if kind == "cuda" and not devices:
        raise SettingsError("device 'cuda' was asked for and there is none")
    show = ""
    if devices and settings.visible_device is None:
        mine = devices[(int(index) if index else settings.slot or 0) % len(devices)]
        if os.environ.get("STUB_LATE") and (index or settings.slot is not None):
            show = mine
        else:
            os.environ["CUDA_VISIBLE_DEVICES"] = mine
    return Hello(kind="cuda" if devices else "interpreter", devices=devices, show=show)


class StubServer:
    """Answer as the real server does."""

    def __init__(self, settings: Settings, send: Callable[[Reply], None], kind: str) -> None:
        """Keep what is needed to answer."""
        self._settings = settings
        self._send = send
        self._kind: Literal["cuda", "interpreter"] = "cuda" if kind == "cuda" else "interpreter"
        self._steps: dict[str, str] = {}

    def answer(self, request: Request) -> Reply:
        """Answer one request."""
        match request:
            case Describe():
                return Described(module=Path(request.path).stem, specs=list(map(_spec, *_specs(request.path))))
            case ReadEnvironment():
                uuid = os.environ.get("CUDA_VISIBLE_DEVICES", "") if self._kind == "cuda" else ""
                name = os.environ.get(f"STUB_NAME_{uuid}", "stub")
                descriptor = DeviceDescriptor(kind=self._kind, name=name, architecture="stub", uuid=uuid)
                devices = [uuid] if uuid else []
                environment = Environment(device=descriptor, devices=devices, seed=self._settings.seed)
                return EnvironmentRead(environment=environment)
            case Open():
                self._steps = ast.literal_eval(Path(request.path).read_text())[request.spec]["candidates"]
                return Opened(outcome="qualified", output=f"sha256:{request.case}", launches=3)
            case Try():
                return self._try(self._steps[str(request.config["C"])])
            case ReadOutput():
                return Output(outputs=[])
            case _:
                raise AssertionError(f"the stub does not know {request}")

    def _try(self, steps: str) -> Tried:
        self._send(Progress(phase="compile" if steps.startswith("compile") else "run"))
        *before, last = steps.split()
        for step in before:
            _do(step)
        if last not in (*get_args(Outcome), *EVIDENCE):
            _do(last)
        equal = "identical_bytes" if self._kind == "cuda" else "interpreted"
        evidence = {"qualified": equal, **dict.fromkeys(EVIDENCE, last)}.get(last)
        last = last if last in get_args(Outcome) else "qualified"
        return Tried(outcome=last, reason=f"stub {last}", evidence=evidence, launches=2)  # type: ignore[arg-type]


def _specs(path: str) -> tuple[list[str], list[dict[str, Any]]]:
    declared: dict[str, dict[str, Any]] = ast.literal_eval(Path(path).read_text())
    return list(declared), list(declared.values())


def _spec(name: str, declared: dict[str, Any]) -> SpecInfo:
    cases = [CaseInfo(id=id_, axes={"n": id_}, key={}) for id_ in declared["cases"]]
    candidates = [CandidateInfo(id=id_, config={"C": id_}, program=id_) for id_ in declared["candidates"]]
    more = {option: declared[option] for option in ("problem", "screen", "require_evidence") if option in declared}
    return SpecInfo(name=name, line=1, cases=cases, candidates=candidates, **more)


def _do(step: str) -> None:
    """Do what one word says."""
    word, _, value = step.partition(":")
    match word:
        case "print":
            print(value.encode().decode("unicode_escape"), flush=True)  # noqa: T201 - into the device process's log
        case "touch":
            Path(value).touch()
        case "meet":
            while not Path(value).exists():
                time.sleep(0.01)
        case "compile" | "hang":
            time.sleep(float(value or FOREVER_S))
        case "abort":
            _abort(value)
        case "kill_owner":
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(FOREVER_S)
        case _:
            raise ValueError(f"no step {step!r}")


def _abort(once: str) -> None:
    """Abort; where a file is named, only the first time."""
    if once and Path(once).exists():
        return
    if once:
        Path(once).touch()
    os.abort()
