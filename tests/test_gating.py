"""Gates on a modelled device: what is unchanged never fails, what became slow is found, what disturbs is said."""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import fake_timing
import pytest
from committed_samples import OTHER_SPACE
from fake_bench import bench, commit, config_of, qualified, stored_times
from fake_timing import FIXED, FakeDevice, Machine
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from pytest_kernelqual.errors import DeviceProcessError, KernelqualError
from pytest_kernelqual.gating import arms as gating_arms
from pytest_kernelqual.gating.arms import Arms
from pytest_kernelqual.gating.gates import control, gate, halve
from pytest_kernelqual.gating.row import check
from pytest_kernelqual.judge.statistics import LAST_LOOK, estimate, log_ratio_of_round
from pytest_kernelqual.model.clocks import Clocks
from pytest_kernelqual.model.messages import Open
from pytest_kernelqual.model.outcome import Cache
from pytest_kernelqual.model.record import CandidateRecord, CommittedRecord, CommittedVerdict, GateName, GateRecord
from pytest_kernelqual.model.timing import OpenTiming, Sample

MARGIN = 0.02


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no clock to settle."""
    monkeypatch.setattr(gating_arms, "_PAUSES_S", (0.0,) * 4)


def decide(machine: Machine, *, margin: float = MARGIN, name: str = "A=1") -> list[GateRecord]:
    """Return the control, and where it arms the gate the decision about a config against the fixed launch."""
    arms = machine.arms([None, None, config_of(name)])
    records = [control(arms, margin=margin, qualify=True)]
    if records[0].verdict == "ok":
        records.append(
            gate(
                "not_slower_than_fixed",
                arms,
                (0, 2),
                margin=margin,
                fresh=lambda: machine.fresh([None, config_of(name)]),
            )
        )
    return records


def verdicts(count: int, slower: float = 0.0, **model: Any) -> Counter[str]:
    """Return how often each verdict came, over machines that differ by their seed."""
    machines = (Machine({FIXED: 10.0, "A=1": 10.0 * (1 + slower)}, seed=seed, **model) for seed in range(count))
    return Counter(decide(machine)[-1].verdict for machine in machines)


@pytest.mark.parametrize(
    ("model", "decided"),
    [
        ({}, 1000),
        ({"slower": 0.005}, 1000),
        ({"drift": 0.0005}, 1000),
        ({"bias": 0.002}, 900),
        ({"noise": 0.006}, 900),
        ({"noise": 0.02}, 0),
        ({"noise": 0.10}, 0),
        ({"noise": 0.05, "bias": 0.02}, 0),
    ],
    ids=str,
)
def test_unchanged_configs_never_fail(model: dict[str, Any], decided: int) -> None:
    """On quiet machines nearly all are decided; on noisy ones it is said that nothing can be told."""
    seen = verdicts(1000, **model)
    assert seen["slow"] == 0
    assert seen["ok"] >= decided
    assert seen["inconclusive"] <= 20


@pytest.mark.parametrize(("slower", "least"), [(0.03, 0.95), (0.05, 1.0), (0.10, 1.0)])
def test_slow_downs_are_found(slower: float, least: float) -> None:
    """At the default margin, and in the record with its three processes."""
    assert verdicts(300, slower)["slow"] >= least * 300


@pytest.mark.parametrize("noise", [0.02, 0.05])
def test_a_slow_config_on_a_noisy_machine_does_not_pass(noise: float) -> None:
    """What cannot be timed is no pass."""
    assert verdicts(200, 0.10, noise=noise)["ok"] == 0


@pytest.mark.parametrize("quiet", [1, 2])
def test_one_fresh_process_acquits(quiet: int) -> None:
    """A slow-down that one of the two fresh processes does not see fails nothing; the reason shows what it saw."""
    machine = Machine({FIXED: 10.0, "A=1": 10.8}, only={quiet: {"A=1": 10.05}})
    record = decide(machine)[-1]
    assert record.verdict == "ok"
    assert len(record.processes) == 3
    assert 0.3 < (min(record.processes) - 1) * 100 < 0.7
    assert "not confirmed: one process saw +0." in record.reason


def test_a_confirmed_slow_down_is_told() -> None:
    """With the smallest figure of all processes."""
    record = decide(Machine({FIXED: 10.0, "A=1": 10.8}, only={1: {"A=1": 10.5}}))[-1]
    assert record.verdict == "slow"
    assert record.reason.startswith(f"A=1 is slower than fixed by {(min(record.processes) - 1) * 100:.2f} %")
    assert "each of 3 processes, more than 2 %" in record.reason


def samples_agree(record: GateRecord) -> bool:
    """Tell whether each estimate of a record is that of the samples beside it, 16 rounds of each fresh process."""
    assert all(len(rounds) == LAST_LOOK for rounds in record.confirmations)
    found = [
        math.exp(estimate([log_ratio_of_round(abba) for abba in rounds]).log_ratio)
        for rounds in (record.rounds, *record.confirmations)
    ]
    return record.processes == pytest.approx(found, abs=1e-4)


@pytest.mark.parametrize("only", [{}, {1: {"A=1": 10.05}}])
def test_samples_of_all_processes_stay_in_the_record(only: dict[int, dict[str, float]]) -> None:
    """Whether a suspect was confirmed or acquitted."""
    record = decide(Machine({FIXED: 10.0, "A=1": 10.8}, only=only))[-1]
    assert len(record.confirmations) == 2
    assert samples_agree(record)


def test_samples_stay_where_a_suspect_could_not_be_confirmed() -> None:
    """Those of the process that could time it."""
    quiet: Iterator[list[Clocks]] = iter([[]] * 3)  # the control, the first look, one fresh process
    machine = Machine({FIXED: 10.0, "A=1": 10.8}, noise=0.0, clocks=lambda: next(quiet, [steady(), steady(1000)]))
    record = decide(machine)[-1]
    assert (record.verdict, len(record.rounds), len(record.confirmations)) == ("unmeasurable", 6, 1)
    assert samples_agree(record)


@pytest.mark.parametrize("odd", [1, 2])
def test_a_fresh_process_that_times_otherwise_confirms_nothing(tmp_path: Path, odd: int) -> None:
    """What is slow on a warm cache may not be on a cold one; the same of a speed-up that is lower."""
    told = "could not be confirmed: a fresh process times otherwise: graph, warm in place of graph, cold"
    record = decide(Machine({FIXED: 10.0, "A=1": 10.8}, warm=frozenset({odd})))[-1]
    assert record.verdict == "unmeasurable"
    assert record.reason.endswith(told)
    assert len(record.confirmations) == odd - 1
    row = checked(tmp_path, Machine({FIXED: 10.0, "A=1": 9.2}, warm=frozenset({odd})), **stored_times(10.0, 8.0))
    assert (row.verdict, row.gates[-1].gate) == ("unmeasurable", "decay")


def test_samples_of_fresh_processes_are_no_longer_than_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches on a cold cache take longer than by what their number is chosen, and there are not sets for more."""
    asked: list[float] = []

    class Watched(FakeDevice):
        def ask(self, request: Any, *more: Any) -> Any:
            reply = super().ask(request, *more)
            asked.extend([request.target_us] if isinstance(request, OpenTiming) else [])
            return structs.replace(reply, launches=1000) if isinstance(request, OpenTiming) else reply

    monkeypatch.setattr(fake_timing, "FakeDevice", Watched)
    decide(Machine({FIXED: 1.6, "A=1": 1.8}))
    assert asked == [150, 1000, 1000]


def test_an_effect_that_is_too_small_in_microseconds_fails_nothing() -> None:
    """4 % of one microsecond is below what any launch shows."""
    record = decide(Machine({FIXED: 1.0, "A=1": 1.04}))[-1]
    assert record.verdict == "ok"
    assert "of 1 us is too little" in record.reason


def steady(mhz: int = 1980, **more: Any) -> Clocks:
    """Return a reading of a device."""
    return Clocks(sm_mhz=mhz, **more)


@pytest.mark.parametrize(
    ("clocks", "reason"),
    [
        ([steady(1980), steady(1700)], "the clock moved from 1980 to 1700 MHz"),
        ([steady(), steady(throttled=["power cap"])], "the device was throttled: power cap"),
        ([steady(foreign_processes=1), steady()], "another process uses the device"),
        ([steady(), Clocks(sm_mhz=0, problem="GPU is lost")], "the driver's library fails: GPU is lost"),
    ],
)
def test_a_disturbed_device_is_unmeasurable(clocks: list[Clocks], reason: str) -> None:
    """However quiet its samples are, and however slow the config."""
    (record,) = decide(Machine({FIXED: 10.0, "A=1": 12.0}, clocks=lambda: clocks))
    assert (record.verdict, record.reason) == ("unmeasurable", reason)


def test_a_disturbance_that_passes_costs_nothing() -> None:
    """Samples are taken again up to three times; clocks may move within one percent."""
    readings = iter([[steady(1980), steady(1700)], [steady(foreign_processes=2)], [steady(1980), steady(1965)]])
    arms = Machine({FIXED: 10.0}, clocks=lambda: next(readings)).arms([None, None])
    assert control(arms, margin=MARGIN, qualify=True).verdict == "ok"


def test_a_suspect_that_cannot_be_confirmed_keeps_its_samples() -> None:
    """It neither fails nor passes."""
    readings: Iterator[list[Clocks]] = iter([[], []])
    machine = Machine({FIXED: 10.0, "A=1": 11.0}, clocks=lambda: next(readings, [steady(), steady(1000)]))
    record = decide(machine)[-1]
    assert record.verdict == "unmeasurable"
    assert "could not be confirmed: the clock moved" in record.reason
    assert 1.09 < record.ratio[0] < 1.11
    assert len(record.rounds) == 6


def test_what_cannot_be_timed_says_why() -> None:
    """The reason of the device process."""
    (record,) = decide(Machine({FIXED: 1.0, "A=1": 1.0}, refuse="host sync: the launch waits"))
    assert (record.verdict, record.reason) == ("unmeasurable", "host sync: the launch waits")


def test_a_sample_that_is_no_time_is_unmeasurable() -> None:
    """An interval that reads nothing is no speed."""
    record = decide(Machine({FIXED: 1.0, "A=1": 0.0}))[-1]
    assert (record.verdict, record.reason) == ("unmeasurable", "a sample reads 0.0 us, which is no time")


def test_memory_that_does_not_suffice_is_unmeasurable() -> None:
    """Torch's error comes as a fault of the device process, and is none of the config."""
    told = KernelqualError("fault of the tool: Traceback\n  torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB")
    (record,) = decide(Machine({FIXED: 1.0, "A=1": 1.0}, fault=told))
    assert record.verdict == "unmeasurable"
    assert "not enough memory" in record.reason


@pytest.mark.parametrize(("noise", "lengths_us"), [(0.009, [150, 390, 1000]), (0.02, [150, 1000])])
def test_noise_lengthens_samples(noise: float, lengths_us: list[float]) -> None:
    """A control that is too wide is taken again, of the arms as they are; the wider it is, the longer at once."""
    machine = Machine({FIXED: 10.0}, noise=noise, bias=0.0, seed=2)
    device = FakeDevice(machine)
    arms = Arms(device, gating_arms.Place("a.py", "a", "a", gating_arms.Limits(1, 1, 1)), [None] * 2, exclusive=_Held)
    record = control(arms, margin=MARGIN, qualify=True)
    opened = [request for request in device.requests if isinstance(request, OpenTiming)]
    assert [request.target_us for request in opened] == pytest.approx(lengths_us)
    assert [request.arms for request in opened] == [[None, None], *[None] * (len(opened) - 1)]
    assert sum(isinstance(request, Open) for request in device.requests) == 1
    assert (record.verdict == "unmeasurable") is record.reason.startswith("timing is too noisy: between -")
    assert len(record.rounds) == 48  # the means of three count as one


@pytest.mark.parametrize(
    ("noise", "verdict", "rounds"), [(0.003, "ok", 16), (0.009, "ok", 48), (0.2, "unmeasurable", 48)]
)
def test_three_rounds_count_as_one_where_the_longest_samples_are_too_noisy(
    noise: float, verdict: str, rounds: int
) -> None:
    """All of them are kept in the record."""
    # Longer samples of this machine are as noisy as short ones.
    machine = Machine({FIXED: 10.0}, noise=noise, bias=0.0)
    record = control(machine.arms([None, None]), margin=MARGIN, qualify=True)
    assert (record.verdict, len(record.rounds)) == (verdict, rounds)


class _Held:
    """Counts how a device is held."""

    depth = 0

    def __enter__(self) -> None:
        type(self).depth += 1

    def __exit__(self, *error: object) -> None:
        type(self).depth -= 1


class _Shared(_Held):
    depth = 0


def test_the_device_is_held_alone_for_samples_and_shared_for_compiling() -> None:
    """Nobody compiles beside samples of another run, and nothing is compiled while it is held alone."""
    held: list[tuple[str, int, int]] = []

    class Watched(FakeDevice):
        def ask(self, request: Any, *more: Any) -> Any:
            held.append((type(request).__name__, _Held.depth, _Shared.depth))
            return super().ask(request, *more)

    place = gating_arms.Place("a.py", "a", "a", gating_arms.Limits(1, 1, 1))
    arms = Arms(Watched(Machine({FIXED: 1.0})), place, [None] * 2, exclusive=_Held, shared=_Shared)
    control(arms, margin=MARGIN, qualify=True)
    assert held == [("Open", 0, 1), ("OpenTiming", 0, 1), ("Sample", 1, 0)]
    assert (_Held.depth, _Shared.depth) == (0, 0)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.01, 0.03, 0.06]), st.floats(0.2, 50.0))
def test_scaling_all_times_changes_no_verdict(seed: int, slower: float, factor: float) -> None:
    """A device at another speed decides alike: above the absolute floor there is no unit."""
    times = {FIXED: 100.0, "A=1": 100.0 * (1 + slower)}
    scaled = {name: time_us * factor for name, time_us in times.items()}
    first, second = (decide(Machine(held, seed=seed, quantum_us=1e-3))[-1] for held in (times, scaled))
    assert first.verdict == second.verdict
    assert all(math.isclose(*pair, abs_tol=2e-6) for pair in zip(first.ratio, second.ratio, strict=True))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.1, 0.3]))
def test_swapping_arms_flips_the_verdict(seed: int, slower: float) -> None:
    """What is slow against the other is fast the other way round."""
    machine = Machine({FIXED: 10.0, "A=1": 10.0 * (1 + slower)}, seed=seed)
    arms = machine.arms([None, None, config_of("A=1")])
    assert control(arms, margin=MARGIN, qualify=True).verdict == "ok"
    fresh = {(0, 2): [None, config_of("A=1")], (2, 0): [config_of("A=1"), None]}
    seen = {
        pair: gate("near_best", arms, pair, margin=MARGIN, fresh=lambda configs=configs: machine.fresh(configs)).verdict
        for pair, configs in fresh.items()
    }
    assert seen == {(0, 2): "slow", (2, 0): "ok"}


@settings(max_examples=30, deadline=None)
@given(st.permutations([6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0]), st.integers(0, 1000))
def test_halving_puts_the_fastest_first(times: list[float], seed: int) -> None:
    """In whatever order candidates come."""
    machine = Machine({FIXED: 10.0, **{f"A={at}": time_us for at, time_us in enumerate(times)}}, seed=seed)
    arms = machine.arms([None, None, *(config_of(f"A={at}") for at in range(len(times)))])
    arms.open(150.0, qualify=True)
    order = halve(arms, 0, range(2, 2 + len(times)))
    assert sorted(order) == list(range(2, 2 + len(times)))
    assert times[order[0] - 2] == 6.0


def test_documents_name_every_verdict_and_gate() -> None:
    """Whoever meets one finds what it means."""
    text = (Path(__file__).parent.parent / "docs" / "gates.md").read_text()
    names = {*get_args(CommittedVerdict), *get_args(GateName)} - {"control"}
    assert {name for name in names if f"`{name}`" not in text} == set()


# Whole rows: from a committed file to a verdict.


def checked(folder: Path, machine: Machine | None, name: str | None = "A=1", **more: Any) -> CommittedRecord:
    """Commit a row and check it."""
    given_ = {
        key: more.pop(key)
        for key in list(more)
        if key in {"speed_up", "speed_up_samples", "times_us", "space", "cache"}
    }
    commit(folder, name, **given_)
    return check(bench(folder, machine, **more))


def test_an_unchanged_row_is_ok_over_many_runs(tmp_path: Path) -> None:
    """All gates together, with candidates about as fast, on machines of everyday noise."""
    commit(tmp_path, "A=1", **stored_times(10.0, 8.0))
    times = {FIXED: 10.0, "A=1": 8.0, "A=2": 8.05, "A=3": 7.9, "A=4": 9.0}
    seen = Counter(check(bench(tmp_path, Machine(times, seed=seed))).verdict for seed in range(500))
    assert seen == {"ok": 500}


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ({FIXED: 10.0, "A=1": 10.5}, "slower_than_fixed"),
        ({FIXED: 10.0, "A=1": 8.0, "A=2": 7.0, "A=3": 7.5}, "slower_than_best"),
        ({FIXED: 10.0, "A=1": 9.0}, "decayed"),
        ({FIXED: 10.0, "A=1": 8.6}, "ok"),
        ({FIXED: 10.0, "A=1": 8.0}, "ok"),
    ],
)
def test_verdict_of_a_row(tmp_path: Path, times: dict[str, float], verdict: str) -> None:
    """Of one that was committed at 8 us against 10 us."""
    for seed in range(20):
        record = checked(tmp_path, Machine(times, seed=seed), **stored_times(10.0, 8.0))
        assert (record.verdict, record.passed) == (verdict, verdict == "ok"), record.reasons
        assert bool(record.reasons) is (times["A=1"] != 8.0 or len(times) > 2)


def test_speed_ups_on_other_states_of_the_cache_are_not_compared(tmp_path: Path) -> None:
    """What was committed on a warm cache says nothing of a cold one: a warning, and the other gates decide."""
    machine = Machine({FIXED: 10.0, "A=1": 9.5})
    record = checked(tmp_path, machine, **stored_times(10.0, 8.0), cache="warm")
    told = "warning: committed on a warm L2 cache, and timed on a cold one now: no decay is told"
    assert (record.verdict, record.reasons) == ("ok", [told])


@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_arms_are_opened_on_the_state_of_the_cache_that_the_spec_asks_for(cache: Cache) -> None:
    """Cold unless it asks for a warm one."""
    device = FakeDevice(Machine({FIXED: 10.0}))
    place = fake_timing.PLACE if cache == "cold" else fake_timing.PLACE._replace(cache=cache)
    control(Arms(device, place, [None] * 2, exclusive=_Held), margin=MARGIN, qualify=True)
    assert [one.cache for one in device.requests if isinstance(one, OpenTiming)] == [cache]


def test_arms_that_differ_by_where_they_lie_are_built_anew() -> None:
    """What two graphs of one launch differ by is another thing for the next two."""
    opened: Counter[tuple[str, int]] = Counter()
    for seed in range(40):
        device = FakeDevice(Machine({FIXED: 10.0}, noise=0.001, bias=0.005, seed=seed))
        arms = Arms(device, fake_timing.PLACE, [None] * 2, exclusive=_Held)
        verdict = control(arms, margin=MARGIN, qualify=True).verdict
        opened[verdict, sum(isinstance(request, OpenTiming) for request in device.requests)] += 1
    assert opened.keys() == {*(("ok", times) for times in range(1, 6)), ("unmeasurable", 5)}


def test_the_best_is_looked_for_with_short_samples_and_judged_by_long_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most candidates are far from the margin even on rough data."""
    asked: list[Sample] = []

    class Watched(FakeDevice):
        def ask(self, request: Any, *more: Any) -> Any:
            asked.extend([request] if isinstance(request, Sample) else [])
            return super().ask(request, *more)

    monkeypatch.setattr(fake_timing, "FakeDevice", Watched)
    machine = Machine({FIXED: 10.0, "A=1": 8.0, "A=2": 9.0, "A=3": 7.7})  # the last is near the margin
    assert checked(tmp_path, machine, **stored_times(10.0, 8.0)).verdict == "ok"
    assert [sample.pairs for sample in asked if sample.roughly] == [[(2, 3), (2, 4)]]
    assert [sample.pairs for sample in asked if not sample.roughly] == [[(0, 1)], [(0, 2)], [(4, 2)]]


def test_the_best_is_really_the_best(tmp_path: Path) -> None:
    """Whichever candidate it is, the gate holds the committed config against that one."""
    for best in range(2, 12):
        times = {FIXED: 10.0, "A=1": 8.0, **{f"A={at}": 7.6 for at in range(2, 12)}, f"A={best}": 7.0}
        record = checked(tmp_path, Machine(times, seed=best), **stored_times(10.0, 8.0))
        assert (record.verdict, record.gates[-1].a, record.gates[-1].b) == ("slower_than_best", f"A={best}", "A=1")


def test_order_of_candidates_changes_no_decision(tmp_path: Path) -> None:
    """Verdict, and against which candidate it was found."""
    times = {"A=1": 8.0, "A=2": 7.0, "A=3": 9.0, "A=4": 12.0}
    commit(tmp_path, "A=1", **stored_times(10.0, 8.0))
    orders = [dict(sorted(times.items(), reverse=back)) for back in (False, True)]
    seen = [check(bench(tmp_path, Machine({FIXED: 10.0, **order}))) for order in orders]
    assert len({(record.verdict, record.gates[-1].a) for record in seen}) == 1


def test_an_unqualified_candidate_is_no_rival(tmp_path: Path) -> None:
    """However fast it is, its bytes are others."""

    def qualify(_case: Any, info: Any) -> CandidateRecord:
        outcome: Any = "mismatch" if info.id == "A=2" else "qualified"
        return CandidateRecord(id=info.id, config=info.config, outcome=outcome)

    record = checked(
        tmp_path, Machine({FIXED: 10.0, "A=1": 8.0, "A=2": 5.0}), qualify=qualify, **stored_times(10.0, 8.0)
    )
    assert (record.verdict, len(record.gates)) == ("ok", 2)


PROGRAMS: dict[str, dict[str, Any]] = {
    "A=1": {},
    "A=2": {"same_program_as": "A=1"},
    "A=3": {"evidence": "identical_binary"},
    "A=4": {},
}


@pytest.mark.parametrize(
    ("name", "timed"),
    [("A=1", ["A=1", "A=4"]), ("A=2", ["A=2", "A=4"]), ("A=3", ["A=3", "A=1", "A=4"]), (None, ["A=1", "A=4"])],
)
def test_each_program_is_timed_once(tmp_path: Path, name: str | None, timed: list[str]) -> None:
    """The committed config stands for its program, and the fixed launch for its own."""
    machine = Machine({FIXED: 10.0, **dict.fromkeys(PROGRAMS, 10.0)})
    asked: list[list[str]] = []

    def arms(configs: Any) -> Any:
        asked.append([config.id for config in configs if config is not None])
        return machine.arms(configs)

    more = {} if name is None else stored_times(10.0, 10.0)
    checked(
        tmp_path, machine, name, qualify=lambda _case, info: qualified(info, **PROGRAMS[info.id]), arms=arms, **more
    )
    assert asked == [timed]


def test_an_honest_null_stands_until_a_candidate_is_much_better(tmp_path: Path) -> None:
    """Where the fixed launch was kept it is what the best candidate is held against."""
    assert checked(tmp_path, Machine({FIXED: 10.0, "A=1": 9.9, "A=2": 9.7}), None).verdict == "ok"
    record = checked(tmp_path, Machine({FIXED: 10.0, "A=1": 9.9, "A=2": 9.0}), None)
    assert (record.verdict, record.config) == ("slower_than_best", None)
    assert record.reasons[0].startswith("fixed is slower than A=2 by 1")


def test_decay_is_confirmed_in_fresh_processes(tmp_path: Path) -> None:
    """One process in which the config is as fast as ever acquits, and the reason of a failure has the best figure."""
    times = {FIXED: 10.0, "A=1": 9.2}
    record = checked(tmp_path, Machine(times, only={1: {"A=1": 8.05}}), **stored_times(10.0, 8.0))
    assert record.verdict == "ok"
    record = checked(tmp_path, Machine(times, only={1: {"A=1": 9.1}}), **stored_times(10.0, 8.0))
    assert (record.verdict, record.gates[-1].gate, record.gates[-1].verdict) == ("decayed", "decay", "slow")
    assert len(record.gates[-1].confirmations) == 2
    assert samples_agree(record.gates[-1])
    assert record.gates[-1].method == record.gates[-2].method != ""
    assert record.reasons == [f"speed-up 1.250 when committed, {1 / min(record.gates[-1].processes):.3f} now (-12.0 %)"]
    record = checked(tmp_path, Machine(times, only={1: {"A=1": 8.7}}), **stored_times(10.0, 8.0))
    assert (record.verdict, record.gates[-1].verdict) == ("ok", "warned")
    assert record.reasons[0].startswith("warning: speed-up 1.250 when committed, 1.1")


def test_a_latency_that_grew_for_both_arms_is_no_decay(tmp_path: Path) -> None:
    """Short launches that take 0.3 us longer to begin lose a part of their ratio, and nothing that a config could."""
    record = checked(tmp_path, Machine({FIXED: 1.95, "A=1": 1.56}), **stored_times(1.65, 1.26))
    assert (record.verdict, record.reasons) == ("ok", [])
    record = checked(tmp_path, Machine({FIXED: 1.65, "A=1": 1.56}), **stored_times(1.65, 1.26))
    assert record.verdict == "decayed"
    # It explains no more than a latency can be.
    record = checked(tmp_path, Machine({FIXED: 20.0, "A=1": 18.8}), **stored_times(10.0, 8.0))
    assert record.verdict == "decayed"


def test_a_fixed_launch_that_became_faster_is_no_decay(tmp_path: Path) -> None:
    """The committed config is as fast as it was."""
    record = checked(tmp_path, Machine({FIXED: 8.5, "A=1": 8.0}), **stored_times(10.0, 8.0))
    assert (record.verdict, record.passed) == ("ok", True)
    assert record.reasons[0].startswith("baseline moved: the fixed launch became faster: speed-up 1.250")


def test_what_cannot_be_told_outweighs_a_warning(tmp_path: Path) -> None:
    """A decay that is only warned of does not turn an undecided gate into a pass."""
    # The control, the first gate and its warning are quiet; then the clocks move.
    readings: Iterator[list[Clocks]] = iter([[], []])
    machine = Machine({FIXED: 10.0, "A=1": 8.6, "A=2": 7.0}, clocks=lambda: next(readings, [steady(), steady(1000)]))
    record = checked(tmp_path, machine, **stored_times(10.0, 8.0))
    assert record.verdict == "unmeasurable"
    assert [reason.partition(":")[0] for reason in record.reasons] == ["warning", "the best is not known"]


def test_scaling_every_time_changes_no_row(tmp_path: Path) -> None:
    """The stored ones included."""
    for factor in (0.5, 3.0):
        for committed in (8.0, 8.6, 9.2, 10.5):
            times = {FIXED: 10.0, "A=1": committed}
            first = checked(tmp_path, Machine(times), **stored_times(10.0, 8.0))
            scaled = Machine({name: time_us * factor for name, time_us in times.items()})
            second = checked(tmp_path, scaled, **stored_times(10.0 * factor, 8.0 * factor))
            assert (first.verdict, first.reasons) == (second.verdict, second.reasons)


def test_a_device_that_dies_while_timing_is_no_pass(tmp_path: Path) -> None:
    """The error reaches who asks, who makes it a verdict."""
    commit(tmp_path, "A=1")
    machine = Machine({FIXED: 10.0, "A=1": 8.0}, fault=DeviceProcessError("ended by SIGSEGV", phase="run"))
    with pytest.raises(DeviceProcessError, match="SIGSEGV"):
        check(bench(tmp_path, machine))


def test_static_verdicts_need_no_device(tmp_path: Path) -> None:
    """Missing, stale, not qualified and not timed, in this order of precedence."""
    held = bench(tmp_path, None)
    assert check(held).verdict == "missing"
    commit(tmp_path, "A=1")
    record = check(held)
    assert (record.verdict, record.passed, record.gates) == ("not_timed", True, [])
    assert record.reasons == ["no device: kernels are interpreted, and nothing is timed"]
    bad = CandidateRecord(id="A=1", config={"A": 1}, outcome="mismatch", reason="3 of 9 elements differ")
    unfit = structs.replace(held, qualify=lambda _case, _info: bad)
    assert check(unfit).reasons == ["A=1: mismatch: 3 of 9 elements differ"]
    assert check(unfit).verdict == "not_qualified"
    stale = structs.replace(unfit, spec=structs.replace(held.spec, space=OTHER_SPACE))
    assert check(stale).verdict == "stale"
    gone = structs.replace(unfit, spec=structs.replace(held.spec, candidates=[]))
    assert (check(gone).verdict, check(gone).reasons[0].partition(" is ")[0]) == ("stale", "A=1")
    other = structs.replace(held, key={"cols": 4097})
    assert check(other).verdict == "missing"
    assert not any(check(one).passed for one in (unfit, stale, gone, other))


def test_a_row_of_another_device_is_not_held_against_this_one(tmp_path: Path) -> None:
    """A config that does not fit here may fit there."""
    unfit = CandidateRecord(id="A=1", config={"A": 1}, outcome="out_of_resources")
    commit(tmp_path, "A=1")
    record = check(bench(tmp_path, None, elsewhere=True, untimed="elsewhere", qualify=lambda _case, _info: unfit))
    assert (record.verdict, record.passed, record.reasons) == ("not_timed", True, ["elsewhere"])
    stale = structs.replace(bench(tmp_path, None).spec, space=OTHER_SPACE)
    assert check(bench(tmp_path, None, elsewhere=True, spec=stale)).verdict == "stale"
