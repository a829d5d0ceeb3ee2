"""Compile committed configs for devices that are not there, beside all else that a run does, within a budget."""

import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from msgspec import Struct, structs

from pytest_kernelqual.errors import DeviceProcessError, KernelqualError, SettingsError
from pytest_kernelqual.model.messages import Survey, Surveyed
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.model.target_record import TargetLaunch
from pytest_kernelqual.processes.compile_targets import unknown
from pytest_kernelqual.processes.device_process import DeviceProcess


class Wanted(Struct, frozen=True, kw_only=True):
    """What is asked about a spec on a compile target: its cases, and which configs beside the fixed launch."""

    target: str
    path: str
    spec: str
    configs: dict[str, list[dict[str, Any]]]
    """By id of the case."""

    def survey(self) -> Survey:
        """Return the request."""
        cases = [(self.spec, case) for case in self.configs]
        return Survey(path=self.path, cases=cases, configs=list(self.configs.values()), quiet=True)


class CompileAhead:
    """Ask for much at once, and take each answer when it is needed; a process for each target."""

    def __init__(self, settings: Settings, *, beside: bool, timed: bool) -> None:
        """Keep how long answers may be waited for, all together.

        Args:
            settings: Of the run.
            beside: Leave a core to the run itself.
            timed: The run times kernels, so that nothing may be compiled but while an answer is waited for.
        """
        self._timed = timed
        self._left_s = settings.target_budget_s
        workers = max(settings.compile_workers - beside, 1)
        self._settings = structs.replace(settings, compile_workers=workers, visible_device="")
        self._queues: dict[str, _Queue] = {}

    def begin(self, wanted: Iterable[Wanted]) -> None:
        """Have all of it compiled, in this order, and come back at once."""
        by_target: dict[str, list[Wanted]] = {}
        for one in wanted:
            by_target.setdefault(one.target, []).append(one)
        for target, asked in by_target.items():
            self._queue(target).add(asked)

    def found(self, wanted: Wanted) -> dict[str, list[TargetLaunch]] | None:
        """Return what each case would meet, by id, the fixed launch first; None where the time is over before."""
        began = time.monotonic()
        queue = self._queue(wanted.target)
        if self._timed and not self._left_s and not queue.knows(wanted):
            return None
        queue.add([wanted])
        try:
            told = queue.reply(wanted, self._left_s)
        finally:
            self._left_s = max(self._left_s - (time.monotonic() - began), 0.0)
        if told is None:
            if self._timed:
                queue.stop()
            return None
        if isinstance(told, str):
            return {case: [unknown(told)] for case in wanted.configs}
        found: dict[str, list[TargetLaunch]] = {case: [] for case in wanted.configs}
        for one in told.launched:
            found[one.case].append(one.launch)
        return found

    def close(self) -> None:
        """End the processes; what they have compiled is kept for the next run."""
        for queue in self._queues.values():
            queue.stop()

    def _queue(self, target: str) -> "_Queue":
        if target not in self._queues:
            self._queues[target] = _Queue(structs.replace(self._settings, device=f"target:{target}"))
        return self._queues[target]


class _Queue:
    """Questions to one process, answered in order; a question that ends the process costs its own answer only."""

    def __init__(self, settings: Settings) -> None:
        self.device = DeviceProcess(settings)
        self._waiting: deque[Wanted] = deque()
        self._replies: dict[tuple[str, str], Surveyed | str] = {}
        self._hopeless = ""

    def add(self, asked: Iterable[Wanted]) -> None:
        """Ask what was not asked before."""
        known = {_name(one) for one in self._waiting} | self._replies.keys()
        new = [one for one in asked if _name(one) not in known]
        self._waiting += new
        if new:
            self._send(new)

    def knows(self, wanted: Wanted) -> bool:
        """Tell whether the answer is there."""
        return _name(wanted) in self._replies

    def stop(self) -> None:
        """End the process, and ask nothing more of what was not answered."""
        self.device.kill()
        self._waiting.clear()

    def reply(self, wanted: Wanted, limit_s: float) -> Surveyed | str | None:
        """Return the answer or why there is none; None where it does not come within the limit."""
        ends = time.monotonic() + limit_s
        while not self.knows(wanted):
            try:
                reply = self.device.collect(max(ends - time.monotonic(), 0.0))
            except SettingsError as error:
                self._give_up(str(error))
            except DeviceProcessError as death:
                self._take(death.cause)
                self._send(list(self._waiting))
            except KernelqualError as error:
                self._take(str(error))
            else:
                if reply is None:
                    return None
                self._take(reply if isinstance(reply, Surveyed) else f"was answered by {type(reply).__name__}")
        return self._replies[_name(wanted)]

    def _send(self, asked: list[Wanted]) -> None:
        if self._hopeless:
            self._give_up(self._hopeless)
        elif asked:
            try:
                self.device.post([one.survey() for one in asked])
            except KernelqualError as error:
                self._give_up(str(error))

    def _take(self, reply: Surveyed | str) -> None:
        self._replies[_name(self._waiting.popleft())] = reply

    def _give_up(self, reason: str) -> None:
        """Nothing more will be answered."""
        self._hopeless = reason
        while self._waiting:
            self._take(reason)


def _name(wanted: Wanted) -> tuple[str, str]:
    return wanted.path, wanted.spec
