"""The compile farm: each code object once, in parallel, the most expensive first."""

import math
import select
import time
from collections.abc import Callable, Sequence

import msgspec

from pytest_kernelqual.on_device.claims import Claims
from pytest_kernelqual.on_device.compile_worker import CompileWorker, Ending, Job

_BEAT_S = 0.25
# Block sizes are powers of two from here on; smaller constants are flags and counts.
_SMALLEST_TILE = 16

OnCompiled = Callable[[int, int], None]


def compile_all(
    jobs: Sequence[Job], *, workers: int, memory_bytes: int, since: float, on_compiled: OnCompiled
) -> dict[str, Ending]:
    """Compile jobs with different keys, and return how each one ended, by key.

    Args:
        jobs: What to compile.
        workers: How many processes to compile in, at least one.
        memory_bytes: How much memory one compilation may take.
        since: When the jobs were found not to be cached; what other processes have told since then is taken over.
        on_compiled: Told several times a second how many jobs are done, and of how many.
    """
    farm = _Farm(sorted(jobs, key=_cost, reverse=True), max(workers, 1), memory_bytes, since)
    try:
        while farm.step():
            on_compiled(len(farm.endings), len(jobs))
        return farm.endings
    finally:
        farm.close()


class _Farm:
    def __init__(self, jobs: list[Job], workers: int, memory_bytes: int, since: float) -> None:
        self.endings: dict[str, Ending] = {}
        self._jobs = jobs
        self._most = workers
        self._memory_bytes = memory_bytes
        self._since = since
        self._todo = list(range(len(jobs)))
        self._workers: list[CompileWorker] = []
        self._claims = Claims()

    def step(self) -> bool:
        """Hand out jobs, and wait a moment for endings; False when all is done."""
        self._hand_out()
        busy = {worker.results: worker for worker in self._workers if worker.job is not None}
        if not busy:
            if self._todo:  # other processes compile them
                time.sleep(_BEAT_S)
            return bool(self._todo)
        poll = select.poll()
        for descriptor in busy:
            poll.register(descriptor, select.POLLIN)
        wait_s = min(_BEAT_S, *(worker.left_s for worker in busy.values()))
        for descriptor, _ in poll.poll(max(wait_s, 0) * 1000):
            self._take(busy.pop(descriptor))
        for worker in busy.values():
            number = worker.job
            ending = worker.give_up()
            if ending is not None and number is not None:
                self._workers.remove(worker)
                self._end(self._jobs[number], ending)
        return True

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.close()

    def _hand_out(self) -> None:
        for number in list(self._todo):
            job = self._jobs[number]
            idle = next((worker for worker in self._workers if worker.job is None), None)
            if idle is None and len(self._workers) >= self._most:
                return
            key = job.key
            if not self._claims.take(key):
                continue
            self._todo.remove(number)
            told = self._told_elsewhere(job)
            if told is not None:
                self._claims.release(key, "" if told.compiled else None)
                self.endings[key] = told
                continue
            if idle is None:
                idle = CompileWorker(self._jobs, self._memory_bytes)
                self._workers.append(idle)
            idle.give(number, job.limit_s)

    def _told_elsewhere(self, job: Job) -> Ending | None:
        """Return what another process has made of the job meanwhile."""
        if job.target is None and job.key == job.specialisation.key and job.specialisation.cached():
            return Ending(compiled=True)
        told = self._claims.told(job.key, self._since)
        try:
            told_limit_s, ending = msgspec.json.decode(told or "null", type=tuple[float, Ending] | None) or (0.0, None)
        except msgspec.DecodeError:
            return None
        return ending if told_limit_s == job.limit_s else None

    def _take(self, worker: CompileWorker) -> None:
        number = worker.job
        if number is None:
            return
        ending = worker.take()
        if ending is None:
            return
        if worker.job is not None:  # it died
            self._workers.remove(worker)
        self._end(self._jobs[number], ending)

    def _end(self, job: Job, ending: Ending) -> None:
        key = job.key
        self.endings[key] = ending
        self._claims.release(key, "" if ending.compiled else msgspec.json.encode((job.limit_s, ending)).decode())


def _cost(job: Job) -> float:
    """Guess how long it compiles: the elements of its tile for each warp and stage."""
    options, constants = job.specialisation.options, job.specialisation.constexprs.values()
    sizes = [value for value in constants if type(value) is int and value >= _SMALLEST_TILE and value.bit_count() == 1]
    return math.prod(sizes) * max(getattr(options, "num_stages", 1), 1) / max(getattr(options, "num_warps", 1), 1)
