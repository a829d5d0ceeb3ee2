"""Choose among the same 48 GEMM configs by triton.autotune and by our screening with its byte comparison.

    python benchmarks/autotune.py [--cold 5] [--warm 20] [--side-by-side]

Needs a GPU, or two for `--side-by-side`, where each tool has one of its own and half of the cores.
Cold trials begin in a new process with an empty compile cache, warm ones find all kernels compiled and loaded.
A trial is counted from when the device is ready and the kernel's file imported, until a config is chosen.
Afterwards all 48 are timed at length, and each choice is held against the best of them.
"""

import argparse
import contextlib
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from pytest_kernelqual.gating.arms import LONGEST_SAMPLE_US, Arms, Place
from pytest_kernelqual.gating.gates import SHORTEST_SAMPLE_US, halve
from pytest_kernelqual.judge.statistics import log_ratio_of_round
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.messages import Describe, Described, Open, ReadEnvironment, SpecInfo, Tried, Try
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.processes.compile_farm import CaseName, CompileFarm
from pytest_kernelqual.processes.device import Limits
from pytest_kernelqual.processes.device_process import DeviceProcess

LIMITS = Limits(300, 300, 300)
PLANTED = Path(__file__).parent / "planted"
SPEC = PLANTED / "qual_gemm_48.py"
TRUTH_ROUNDS = 24
TOOLS = ("autotune", "ours")


class Trial(NamedTuple):
    """One choice."""

    tool: str
    cache: str
    seconds: float
    config: str


def main() -> None:
    """Run the trials, or one kind of them in this process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cold", type=int, default=5)
    parser.add_argument("--warm", type=int, default=20)
    parser.add_argument("--side-by-side", action="store_true")
    parser.add_argument("--in-this-process", choices=TOOLS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_this_process:
        run = {"ours": ours, "autotune": autotune}[options.in_this_process]
        print(json.dumps(run(options.warm)))
        return
    # The last cold process of each tool stays for the warm trials.
    warm = [0] * (options.cold - 1) + [options.warm]
    if options.side_by_side:
        with ThreadPoolExecutor(len(TOOLS)) as pool:
            made = pool.map(lambda place: [fresh_process(TOOLS[place], number, place) for number in warm], range(2))
            trials = [trial for several in made for one in several for trial in one]
    else:
        trials = [trial for number in warm for tool in TOOLS for trial in fresh_process(tool, number)]
    report(trials, truth({trial.config for trial in trials}))


def fresh_process(tool: str, warm: int, place: int | None = None) -> list[Trial]:
    """Run one cold trial, and warm ones after it, in a new process with an empty compile cache.

    With a place it gets that device, and that half of the cores.
    """
    command = [sys.executable, __file__, "--in-this-process", tool, "--warm", str(warm)]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TRITON_CACHE_DIR": cache}
        if place is not None:
            cores = sorted(os.sched_getaffinity(0))
            half = cores[: len(cores) // 2] if place == 0 else cores[len(cores) // 2 :]
            environment["CUDA_VISIBLE_DEVICES"] = str(place)
            command = ["taskset", "-c", ",".join(map(str, half)), *command]
        told = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    print(f"{tool}: a cold trial, {warm} warm ones", file=sys.stderr, flush=True)
    return [Trial(tool, *trial) for trial in json.loads(told.splitlines()[-1])]


def autotune(warm: int) -> list[tuple[str, float, str]]:
    """Let triton.autotune choose."""
    import torch  # noqa: PLC0415 - the process that only counts trials goes without

    sys.path.insert(0, str(PLANTED))
    gemm_48 = importlib.import_module("gemm_48")
    generator = torch.Generator("cuda").manual_seed(0)
    a, b = (torch.randn((1024, 1024), generator=generator, device="cuda", dtype=torch.float16) for _ in range(2))
    torch.cuda.synchronize()
    trials = []
    for number in range(1 + warm):
        tuner = gemm_48.autotuned()
        began = time.monotonic()
        gemm_48.matmul(a, b, tuner)
        torch.cuda.synchronize()
        seconds = time.monotonic() - began
        chosen = tuner.best_config
        config = Config({**chosen.kwargs, "num_warps": chosen.num_warps, "num_stages": chosen.num_stages})
        trials.append(("warm" if number else "cold", seconds, config.id))
    return trials


def ours(warm: int) -> list[tuple[str, float, str]]:
    """Compare the bytes of all configs, and screen those that qualify by successive halving."""
    settings = Settings(root_dir=str(PLANTED), device="cuda", compile_workers=len(os.sched_getaffinity(0)))
    device = DeviceProcess(settings)
    spec = described(device)
    device.ask(ReadEnvironment(), LIMITS)
    trials = []
    for number in range(1 + warm):
        began = time.monotonic()
        if number == 0:
            farm = CompileFarm(device, settings)
            farm.prepare([CaseName(str(SPEC), spec.name, spec.cases[0].id)], lambda _done, _total: None)
            print(f"farm: {farm.totals}, {time.monotonic() - began:.2f} s", file=sys.stderr)
        able = qualified(device, spec)
        print(f"qualified {len(able)}: {time.monotonic() - began:.2f} s", file=sys.stderr)
        arms = opened(device, spec, able, SHORTEST_SAMPLE_US)
        print(f"opened: {time.monotonic() - began:.2f} s", file=sys.stderr)
        order = halve(arms, 0, range(1, 1 + len(able)))
        trials.append(("warm" if number else "cold", time.monotonic() - began, able[order[0] - 1].id))
    device.close()
    return trials


def described(device: DeviceProcess) -> SpecInfo:
    """Return the spec."""
    told = device.ask(Describe(path=str(SPEC)), LIMITS)
    assert isinstance(told, Described), told
    assert not told.problem, told.problem
    return told.specs[0]


def qualified(device: DeviceProcess, spec: SpecInfo) -> list[Config]:
    """Return the configs whose bytes are those of the fixed launch."""
    device.ask(Open(path=str(SPEC), spec=spec.name, case=spec.cases[0].id), LIMITS)
    able = []
    for info in spec.candidates:
        tried = device.ask(Try(config=info.config), LIMITS)
        if isinstance(tried, Tried) and tried.outcome == "qualified":
            able.append(Config(info.config))
    return able


def opened(device: DeviceProcess, spec: SpecInfo, configs: list[Config], target_us: float) -> Arms:
    """Return arms of the open case: the fixed launch, then the configs."""
    place = Place(str(SPEC), spec.name, spec.cases[0].id, LIMITS)
    arms = Arms(device, place, [None, *configs], exclusive=contextlib.nullcontext)
    arms.open(target_us, qualify=False)
    return arms


def truth(chosen: set[str]) -> dict[str, float]:
    """Return the time of each config to that of the best, by rounds of long samples."""
    settings = Settings(root_dir=str(PLANTED), device="cuda")
    device = DeviceProcess(settings)
    spec = described(device)
    device.ask(Open(path=str(SPEC), spec=spec.name, case=spec.cases[0].id), LIMITS)
    configs = [Config(info.config) for info in spec.candidates]
    arms = opened(device, spec, configs, LONGEST_SAMPLE_US)
    logs = {}
    for arm, config in enumerate(configs, 1):
        rounds = arms.sample(0, arm, TRUTH_ROUNDS)
        logs[config.id] = statistics.median(log_ratio_of_round(abba) for abba in rounds)
    device.close()
    best = min(logs.values())
    missing = chosen - set(logs)
    assert not missing, missing
    return {name: math.exp(value - best) for name, value in logs.items()}


def report(trials: list[Trial], ratios: dict[str, float]) -> None:
    """Print what each tool took and chose."""
    for cache in ("cold", "warm"):
        medians = {}
        for tool in TOOLS:
            seen = [trial for trial in trials if (trial.tool, trial.cache) == (tool, cache)]
            if not seen:
                continue
            seconds = sorted(trial.seconds for trial in seen)
            medians[tool] = statistics.median(seconds)
            lost = [(ratios[trial.config] - 1) * 100 for trial in seen]
            within = sum(one <= 1.0 for one in lost)
            print(
                f"{cache} {tool:9s} median {medians[tool]:6.2f} s [{seconds[0]:.2f} {seconds[-1]:.2f}]   "
                f"within 1 % of the best {within} of {len(seen)}, worst +{max(lost):.2f} %   "
                f"{len({trial.config for trial in seen})} configs chosen"
            )
        if set(medians) == set(TOOLS):
            print(f"{cache} autotune / ours: {medians['autotune'] / medians['ours']:.2f}")
    order = sorted(ratios, key=lambda name: ratios[name])
    print("best by the long measurement:", ", ".join(f"{name} +{(ratios[name] - 1) * 100:.2f} %" for name in order[:5]))


if __name__ == "__main__":
    main()
