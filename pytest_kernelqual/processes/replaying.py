"""One candidate of a case again, from saved inputs, in this process: what the scripts of `kernelqual repro` call."""

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from msgspec import structs

from pytest_kernelqual.errors import KernelqualError
from pytest_kernelqual.model.config import Scalar
from pytest_kernelqual.model.messages import Open, Opened, Progress, Reply, Tried, Try
from pytest_kernelqual.model.profiles import FIRST, InputSet
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.on_device.main import prepare
from pytest_kernelqual.processes.device import Limits


def replay(
    *,
    spec: str,
    case: str,
    config: Mapping[str, Scalar],
    inputs: str | Path,
    device: str = "auto",
    input_set: str = "normal/0",
    seed: int = 0,
    repeats: int | None = None,
) -> int:
    """Run the fixed launch and a candidate on saved inputs, print what differs, and return an exit status.

    Without pytest, and in this process: what faults takes it along.

    Args:
        spec: Its file and its name, `kernels/qual_x.py::x`.
        case: Id of the case.
        config: The candidate.
        inputs: File of the inputs, as `kernelqual repro` wrote it.
        device: `auto`, `cuda`, `hip` or `interpreter`.
        input_set: As reports name it; a layout probe lays the inputs out.
        seed: Of the run; it seeds what the builder and the launch draw by themselves.
        repeats: Launches of the candidate.

    Returns:
        1 where the candidate fails or gives other bytes, 0 where it does not, 2 where nothing can be told.
    """
    path, _, name = spec.rpartition("::")
    profile, _, number = input_set.partition("/")
    wanted = InputSet(profile, int(number) if number.isdecimal() else 0)
    settings = Settings(root_dir=str(Path(path).parent), device=device, seed=seed, repeats=repeats)
    watch = _Watch(Limits(settings.start_timeout_s, settings.compile_timeout_s, settings.run_timeout_s))
    try:
        server, hello = prepare(settings, watch.hear)
        label = "Triton interpreter (semantics only: no GPU runs this)" if hello.kind == "interpreter" else hello.kind
        print(f"{name}[{case}] on {wanted}, {label}", flush=True)
        opening = Open(path=path, spec=name, case=case, ask_oracle=False)
        if wanted != FIRST:  # a run was there before, and what launches remember may come from there
            server.answer(opening)
            watch.candidate = True
            server.answer(Try(config=dict(config)))
            watch.candidate = False
        opening = structs.replace(opening, profile=wanted.profile, seed_index=wanted.seed, inputs=str(inputs))
        opened = server.answer(opening)
        if not isinstance(opened, Opened) or opened.outcome != "qualified":
            return _cannot(opened)
        print("fixed launch: the same bytes each time", flush=True)
        watch.candidate = True
        tried = server.answer(Try(config=dict(config)))
    except KernelqualError as error:
        print(f"cannot compare: {error}", file=sys.stderr)
        return 2
    finally:
        watch.stop()
    if not isinstance(tried, Tried):
        return _cannot(tried)
    print(f"candidate: {tried.outcome}{': ' if tried.reason else ''}{tried.reason}", flush=True)
    if tried.outcome == "qualified":
        print("not reproduced")
        return 0
    if tried.outcome in ("unsupported", "not_run"):
        return 2
    print("REPRODUCED", flush=True)
    return 1


def _cannot(reply: Reply) -> int:
    told = (
        getattr(reply, "message", "")
        or f"the fixed launch: {getattr(reply, 'outcome', '')}: {getattr(reply, 'reason', '')}"
    )
    print(f"cannot compare: {told}", file=sys.stderr)
    return 2


class _Watch:
    """End this process when a phase takes longer than a run would let it."""

    def __init__(self, limits: Limits) -> None:
        self.candidate = False
        self._limits = limits
        self._timer: threading.Timer | None = None

    def hear(self, reply: Reply) -> None:
        """Begin anew with each phase."""
        self.stop()
        if isinstance(reply, Progress):
            self._timer = threading.Timer(self._limits.of(reply.phase), self._give_up, [reply.phase])
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        """Let what follows take its time."""
        if self._timer is not None:
            self._timer.cancel()

    def _give_up(self, phase: str) -> None:
        who, what = ("the candidate", "REPRODUCED") if self.candidate else ("the fixed launch", "cannot compare")
        print(f"{what}: {who} did not end phase {phase} within {self._limits.of(phase):g} s", flush=True)
        os._exit(1 if self.candidate else 2)
