"""Input sets end to end: which are run, which are put aside, what fails, and what reports tell of it."""

from functools import cache
from itertools import takewhile
from pathlib import Path
from tempfile import mkdtemp
from textwrap import dedent
from typing import Any

import pytest
from acceptance import Ended, assert_agree, run
from committed_runs import commit
from committed_samples import row

from pytest_kernelqual import Case, Config, kernel_spec
from pytest_kernelqual.model.probes import derived_cases
from pytest_kernelqual.model.record import CaseRecord
from pytest_kernelqual.model.spec import DECLARED
from pytest_kernelqual.on_device.layouts import Exposure

# Launches that take the config need no kernel; `calls` counts those of each spec.
SPECS = """
    import collections

    import torch

    from pytest_kernelqual import Case, Config, Tolerance, kernel_spec

    calls = collections.Counter()
    CONFIGS = [Config(A=1), Config(A=2)]
    LARGE = 1e6


    def spec(**options):
        return kernel_spec(**{"candidates": CONFIGS, "cases": [Case(n=40)], **options})


    def large(x):
        return bool((x.abs() > LARGE).any())


    @spec(profiles=("constant", "ties"))
    def raises(case, seeded):
        x = seeded.normal((case.n,), name="x")

        def launch(config):
            if large(x):
                raise ValueError("x is too large")
            return x + 1.0

        return launch


    @spec(profiles=("constant", "ties"))
    def drowns(case, seeded):
        x = seeded.normal((case.n,), name="x")
        return lambda config: (x * x).exp()


    @spec(profiles=("repeats", "sorted", "ties"))
    def idle(case, seeded):
        x = seeded.normal((case.n,), name="x")
        return lambda config: x + calls["idle"]


    @spec(profiles=("constant", "ties"))
    def shaky(case, seeded):
        x = seeded.normal((case.n,), name="x")

        def launch(config):
            calls["shaky"] += 1
            return x + (calls["shaky"] * 1e16 if large(x) else 0.0)

        return launch


    @spec(profiles=("constant",))
    def unwritten(case, seeded):
        x = seeded.normal((case.n,), name="x")

        def launch(config):
            y = torch.empty_like(x)
            y[: case.n - large(x)] = 1.0
            return y

        return launch


    @spec(profiles=("constant", "ties"))
    def chancy(case, seeded):
        x = seeded.normal((case.n,), name="x")

        def launch(config):
            if not config or config["A"] == 1 or not large(x):
                return x + 1.0
            calls["chancy"] += 1
            return x * calls["chancy"] * 2.0

        return launch


    @spec(profiles=("ties", "constant"), seeds=2)
    def wrong(case, seeded):
        x = seeded.normal((case.n,), name="x")
        return lambda config: x + (1.0 if config and config["A"] == 2 else 0.0)


    @spec()
    def plain(case, seeded):
        x = seeded.uniform((case.n,), low=0.5, high=2.0, name="x")
        index = seeded.randint(0, case.n, (case.n,), name="index")
        mask = seeded.bernoulli((case.n,), name="mask")

        def launch(config):
            if not bool(((x >= 0.5) & (x < 2.0)).all()):
                raise ValueError("x is out of bounds")
            return torch.where(mask, x[index], 0.0)

        return launch


    @spec(tolerance=Tolerance(rtol=1e-3))
    def tolerant(case, seeded):
        x = seeded.normal((case.n,), name="x")
        return lambda config: x + 1.0


    kept = {}  # what no launch can put back


    @spec(profiles=("ties",))
    def leaves(case, seeded):
        x = seeded.normal((case.n,), name="x")

        def launch(config):
            y = torch.empty_like(x)
            if not kept:
                y.copy_(x)
            if config and config["A"] == 2:
                kept["from"] = "a candidate"
            return y

        return launch


    @spec(profiles=("none",))
    def quiet(case, seeded):
        x = seeded.normal((case.n,), name="x")
        return lambda config: x + 1.0
"""


# Probes that name what is not there, or what cannot take them.
PROBES = """
    from pytest_kernelqual import Case, Config, kernel_spec

    CASES = [Case(n=40), Case(n=50), Case(n=60)]


    def probing(probes, **options):
        return kernel_spec(candidates=[Config(A=1), Config(A=2)], probes=probes, **{"cases": CASES, **options})


    @probing({"strided": "zzz"})
    def misnamed(case, seeded):
        x, y = (seeded.normal((case.n,), name=name) for name in "xy")
        return lambda config: x + y


    @probing({"beyond_2_31": ("vec1", "y")}, cases=CASES[:1])
    def partly_misnamed(case, seeded):
        x, y = (seeded.normal((case.n,), name=name) for name in ("vec0", "y"))
        return lambda config: x + y


    @probing({"beyond_2_31": "x"})
    def single_axis(case, seeded):
        x = seeded.normal((case.n,), name="x")
        return lambda config: x + 1.0


    @probing({"strided": "x"}, profiles=("repeats", "sorted", "ties"))
    def picky(case, seeded):
        x = seeded.normal((case.n,), name="x")

        def launch(config):
            if not x.is_contiguous() and case.n > 40:
                raise ValueError(f"stride of {case.n}")
            return x + 1.0

        return launch


    @probing((), profiles=("all",))
    def silent(case, seeded):
        x = seeded.normal((case.n,), name="x")
        return lambda config: x + 1.0
"""


def run_specs(text: str) -> Ended:
    """Run spec files under the interpreter."""
    folder = Path(mkdtemp(prefix="kernelqual-"))
    (folder / "qual_sets.py").write_text(dedent(text))
    (folder / "pytest.ini").write_text(
        "[pytest]\nkernelqual_paths = .\nkernelqual_profiles = extremes, ties denormals\n"
    )
    return run(folder, "--kernelqual-device=interpreter")


@cache
def probed() -> Ended:
    """Run the specs with probes."""
    return run_specs(PROBES)


@cache
def ended() -> Ended:
    """Run all specs with one profile of the run's own."""
    return run_specs(SPECS)


def case_of(name: str) -> CaseRecord:
    """Return the only case of a spec."""
    (found,) = (kernel.cases[0] for kernel in ended().document.kernels if kernel.kernel == name)
    return found


def sets(name: str) -> dict[str, str]:
    """Return why each input set of a spec was put aside, in order."""
    return {f"{made.profile}/{made.seed}": made.set_aside for made in case_of(name).input_sets}


def test_every_file_of_the_run_agrees() -> None:
    """JSON, JUnit, summary and exit code; only what fails by its fixed launch or a candidate fails."""
    assert_agree(ended())
    failing = {kernel.kernel for kernel in ended().document.kernels if not kernel.cases[0].passed}
    assert failing == {"shaky", "unwritten", "chancy", "wrong", "leaves"}


def test_a_profile_that_the_fixed_launch_cannot_take_is_put_aside() -> None:
    """It raises, gives nothing finite, or no input takes the profile: told, and nothing fails."""
    assert sets("raises") == {
        "normal/0": "",
        "constant/0": "the launch raised ValueError: x is too large",
        "ties/0": "",
    }
    assert sets("drowns") == {
        "normal/0": "",
        "constant/0": "every element of the fixed launch's output is infinite or NaN",
        "ties/0": "",
    }
    assert sets("idle") == {
        "normal/0": "",
        "repeats/0": "no input of the case takes it",
        "ties/0": "",
        "sorted/0": "no input of the case takes it",
    }
    for name in ("raises", "drowns", "idle"):
        assert [(record.outcome, record.seeds) for record in case_of(name).candidates] == [("qualified", 2)] * 2


@pytest.mark.parametrize(("name", "outcome"), [("shaky", "nondeterministic"), ("unwritten", "incomplete_write")])
def test_a_fixed_launch_that_is_at_fault_on_a_profile_fails_its_case(name: str, outcome: str) -> None:
    """With the input set in its reason."""
    case = case_of(name)
    assert case.fixed.outcome == outcome
    assert case.fixed.reason.endswith("(inputs: constant/0)")
    assert {record.outcome for record in case.candidates} == {"not_run"}


def test_a_candidate_that_differs_on_a_profile_is_repeated_there() -> None:
    """One launch is enough where bytes agree; where they do not, a race is told from a difference."""
    sound, chancy = case_of("chancy").candidates
    assert (sound.outcome, sound.launches) == ("qualified", 2 + 1 + 1)
    assert (chancy.outcome, chancy.launches) == ("nondeterministic", 2 + 2)
    assert chancy.detail["input_set"] == "constant/0"
    assert chancy.detail["input_sets_differing"] == ["constant/0"]
    assert chancy.reason.endswith("(inputs: constant/0)")
    assert "(inputs: constant/0)" in ended().text


def test_a_candidate_that_fails_on_normal_inputs_is_tried_on_no_profile() -> None:
    """Only further seeds are tried: on how many of them it fails."""
    sound, wrong = case_of("wrong").candidates
    assert (sound.seeds, wrong.seeds) == (4, 2)
    assert wrong.detail["input_sets_differing"] == ["normal/0", "normal/1"]
    assert "inputs:" not in wrong.reason
    assert list(sets("wrong")) == ["normal/0", "constant/0", "ties/0", "normal/1"]


def test_the_run_names_profiles_and_a_spec_has_the_last_word() -> None:
    """Bounds are kept throughout; what is said of a tolerance is said of normal values."""
    assert sets("plain") == dict.fromkeys(["normal/0", "extremes/0", "ties/0", "denormals/0"], "") | {
        "denormals/0": "no input of the case takes it"
    }
    assert list(sets("tolerant")) == list(sets("quiet")) == ["normal/0"]
    environment = ended().document.environment
    assert environment is not None
    assert environment.profiles == ["extremes", "ties", "denormals"]
    assert "profiles: one more input set each of extremes, ties, denormals" in ended().text


def test_what_a_candidate_leaves_behind_does_not_reach_the_next_input_set() -> None:
    """The fixed launch is asked again in a new process, and the candidate's outcome stands."""
    case = case_of("leaves")
    assert (case.fixed.outcome, case.restarts) == ("qualified", 1)
    assert [(record.outcome, record.seeds) for record in case.candidates] == [
        ("qualified", 2),
        ("nondeterministic", 1),
    ]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("misnamed", "probe 'strided' is about 'zzz', which is no input of the case; inputs: x, y"),
        (
            "partly_misnamed",
            "probe 'beyond_2_31' is about 'vec1', which is no input of the case; did you mean 'vec0'? inputs: vec0, y",
        ),
    ],
)
def test_a_probe_of_an_input_that_does_not_exist_fails_every_case(name: str, told: str) -> None:
    """With the name, the nearest right one and all that there are."""
    (kernel,) = (one for one in probed().document.kernels if one.kernel == name)
    for case in kernel.cases:
        assert not case.passed
        assert (case.fixed.outcome, case.fixed.reason) == ("not_run", told)


def test_the_summary_tells_what_was_put_aside() -> None:
    """By kernel, profile or probe and reason, with the number of cases; what nobody asked for by name is no news."""
    start = "put aside: input sets on which nothing was compared\n"
    _, _, told = probed().text.partition(start)
    assert list(takewhile(lambda line: line.startswith("  "), told.splitlines())) == [
        "  single_axis: beyond_2_31 (3 of 3 cases): no input of the case takes it; one",
        "      that does has two axes of more than one element and is neither adopted nor",
        "      kept to a profile",
        "  picky: repeats, sorted (3 of 3 cases): no input of the case takes it",
        "  picky: strided (2 of 3 cases): the launch raised ValueError: stride of 50 (and",
        "      1 other reason)",
    ]
    (picky,) = (one for one in probed().document.kernels if one.kernel == "picky")
    assert [(one.profile, one.declared) for one in picky.cases[0].input_sets] == [
        ("normal", False),
        ("repeats", True),
        ("ties", True),
        ("sorted", True),
        ("strided", True),
    ]


# --- declarations -----------------------------------------------------------------------------------------------------


def error(**options: Any) -> str:
    """Return what is wrong with a spec that is right but for these options."""

    def builder(case: Any, seeded: Any) -> Any:
        return lambda: (case, seeded)

    spec = kernel_spec(**{"candidates": [Config(A=1)], "cases": [Case(rows=8, cols=1.5, kind="a")], **options})(builder)
    DECLARED.pop(__name__)
    return spec.error or ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"profiles": ("cancelin",)}, "no profile is called 'cancelin'; did you mean 'cancelling'?"),
        ({"profiles": 3}, "profiles=3 must be a tuple of names"),
        (
            {"probes": "strided"},
            "probes='strided' must be a tuple of names, or a dict of names and what they are about",
        ),
        ({"probes": ("stride",)}, "no probe is called 'stride'; did you mean 'strided'?"),
        ({"probes": {"strided": 3}}, "probe 'strided' is about 3; give names, or True"),
        (
            {"probes": ("more_rows",)},
            "probe 'more_rows' must name an axis of the cases, as in probes={'more_rows': 'rows'}",
        ),
        (
            {"probes": {"more_rows": "row"}},
            "probe 'more_rows' is about 'row', which case 'rows8-cols1.5-a' does not have as a size from 1 on",
        ),
        (
            {"probes": {"last_tile_of_one": ("rows", "cols")}},
            "probe 'last_tile_of_one' is about 'cols', which case 'rows8-cols1.5-a' does not have as a size from 1 on",
        ),
        (
            {"probes": {"more_rows": "rows"}, "cases": [Case(rows=8, probe="x")]},
            "case 'rows8-x' has the axis 'probe', by which derived cases are told; rename it",
        ),
    ],
)
def test_wrong_profiles_and_probes_are_one_clear_error(options: dict[str, Any], message: str) -> None:
    """With the value seen, and the nearest right one."""
    assert error(**options) == message


def test_right_profiles_and_probes_are_none() -> None:
    """In each form that they take."""
    for profiles in ((), "all", ("all", "nonfinite"), ["ties"], None):
        assert error(profiles=profiles) == ""
    for probes in ((), ["strided"], {"strided": True, "misaligned": "x", "beyond_2_31": ("x", "y")}):
        assert error(probes=probes) == ""


def test_derived_cases_follow_declared_ones_and_the_smaller_ones_of_the_interpreter() -> None:
    """A size that is a power of two and one more already derives nothing."""
    cases = [Case(rows=100, cols=1024, interpreter={"cols": 40}), Case(rows=1, cols=257)]
    made = derived_cases(cases, {"more_rows": ("rows",), "last_tile_of_one": ("cols",), "strided": None}, [])
    assert [(case.id, case.under_interpreter().axes) for case in made] == [
        ("rows1600-cols1024-more_rows", {"rows": 300, "cols": 40, "probe": "more_rows"}),
        ("rows16-cols257-more_rows", {"rows": 3, "cols": 257, "probe": "more_rows"}),
        ("rows100-cols1025-last_tile_of_one", {"rows": 100, "cols": 33, "probe": "last_tile_of_one"}),
    ]


@pytest.mark.parametrize(
    ("configs", "size"),
    [
        ([], 513),
        ([Config(BLOCK=64), Config(BLOCK=256)], 513),
        ([Config(BLOCK_M=64, BLOCK_N=1024), Config(BLOCK_M=128, BLOCK_N=256)], 1025),
        ([Config(XBLOCK=96), Config(tile_n=2048)], 2049),
        ([Config(VOCABULARY=4096, num_warps=8, BLOCKED=True), Config(BLOCK=1 << 30), Config(BLOCK=-1)], 513),
    ],
)
def test_last_tile_of_every_candidate_holds_one_element(configs: list[Config], size: int) -> None:
    """Tiles larger than the declared size too, where a name tells that it is of a tile."""
    made = derived_cases([Case(n=1000, interpreter={"n": 40})], {"last_tile_of_one": ("n",)}, configs)
    assert [case.axes["n"] for case in made] == [size]
    tiles = [value for config in configs for value in config.values() if type(value) is int and 8 < value < size]
    small = made[0].under_interpreter().axes["n"]
    assert all(small % tile == 1 for tile in tiles if tile != 96)


def test_no_committed_config_is_kept_for_a_derived_case(tmp_path: Path) -> None:
    """The case has an item of candidates, and no row is missed."""
    (tmp_path / "kernels").mkdir()
    (tmp_path / "committed_configs").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    spec = dedent("""
        from pytest_kernelqual import Case, Config, kernel_spec

        @kernel_spec(candidates=[Config(BLOCK=64)], cases=[Case(n=40)], key=("n",), probes={"last_tile_of_one": "n"})
        def probed(case, seeded):
            x = seeded.normal((case.n,), name="x")
            return lambda config: x + 1.0
    """)
    (tmp_path / "kernels" / "qual_probed.py").write_text(spec)
    commit(tmp_path, "probed", row({"n": 40}, {"BLOCK": 64}))
    ended = run(tmp_path, "--collect-only", "-q", "--kernelqual-device=interpreter")
    names = [line.partition("::")[2] for line in ended.text.splitlines() if line.startswith("kernels/qual_probed.py::")]
    assert names[:2] == ["probed::test_candidates[n40]", "probed::test_candidates[n65-last_tile_of_one]"]
    assert len(names) == 3
    assert names[2].startswith("probed::test_committed[n40-")


@pytest.mark.parametrize(
    ("probe", "shape", "strides", "expected"),
    [
        ("strided", (4, 10), (10, 1), ((13, 1), 0)),
        ("strided", (2, 4, 10), (40, 10, 1), ((52, 13, 1), 0)),
        ("strided", (4, 10), (1, 4), ((1, 7), 0)),
        ("strided", (10,), (1,), ((2,), 0)),
        ("strided", (1, 1), (1, 1), ((1, 1), 0)),
        ("misaligned", (4, 10), (10, 1), ((10, 1), 1)),
        ("beyond_2_31", (5, 8), (8, 1), ((2**29, 1), 0)),
        ("beyond_2_31", (4, 3, 8), (24, 8, 1), ((715827888, 8, 1), 0)),
        ("beyond_2_31", (10,), (1,), ((1,), 0)),
        ("misaligned", (0, 10), (10, 1), ((10, 1), 0)),
        ("", (4, 10), (10, 1), ((10, 1), 0)),
    ],
)
def test_layouts_of_probes(probe: str, shape: Any, strides: Any, expected: Any) -> None:
    """Elements stay apart, and what is not named stays as it is."""
    exposure = Exposure.of(probe, {probe: ("x",)}) if probe else Exposure()
    assert exposure.layout("x", shape, strides) == expected
    assert exposure.layout("y", shape, strides) == (strides, 0)
    if probe == "beyond_2_31" and len(shape) > 1:
        assert (shape[0] - 1) * expected[0][0] >= 2**31
