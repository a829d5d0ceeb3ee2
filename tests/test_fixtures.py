"""Hand-written tests: the marker, the fixtures and the hooks, and debuggers in the pytest process."""

import re
from collections.abc import Iterator

import pytest
from scenarios import OPS, Runs, runs

SPECS = """
    from ops import double, double_kernel
    from pytest_kernelqual import Case, Config, grid, kernel_spec

    @kernel_spec(
        kernel=double_kernel, candidates=grid(BLOCK=[32, 128]), cases=[Case(n=100), Case(n=64)], key=("n",)
    )
    def doubled(case, seeded):
        breakpoint()  # nobody could answer it in the device process
        x = seeded.normal((case.n,), name="x")
        return lambda: double(x)

    @kernel_spec(kernel=double_kernel, candidates=grid(BLOK=[32]), cases=[Case(n=10)])
    def wrong(case, seeded):
        return lambda: None

    @kernel_spec(candidates=[Config(A=1), Config(A=2)], cases=[Case(n=3)])
    def host(case, seeded):
        x = seeded.arange(case.n, dtype="float32", name="x")
        return lambda config: (x + 1, x * (2 if config and config["A"] == 2 else 1))

    @kernel_spec(candidates=[Config(A=1)], cases=[Case(n=3)])
    def nothing(case, seeded):
        return lambda config: None
"""

TESTS = """
    import struct
    import sys
    import pytest
    from pytest_kernelqual import Config, KernelqualError

    DOUBLED = "qual_ops.py::doubled"

    @pytest.mark.kernelqual(DOUBLED)
    def test_everything(kernel_case, candidates, qualify, fixed_launch, seeded):
        n = kernel_case.axes["n"]
        assert (kernel_case.id, kernel_case.key) == (f"n{n}", {"n": n})
        assert candidates == [Config(BLOCK=32), Config(BLOCK=128)]
        records = [qualify(config) for config in candidates]
        assert [(record.outcome, record.evidence, record.id) for record in records] == [
            ("qualified", "interpreted", "BLOCK=32"), ("qualified", "interpreted", "BLOCK=128"),
        ]
        output, = fixed_launch()
        assert (output.name, output.shape, output.dtype, len(output.data)) == ("return", (n,), "float32", 4 * n)
        x, = seeded.inputs
        assert (seeded.seed, x.name, x.shape, x.dtype, x.strides) == (3, "x", (n,), "float32", (1,))
        assert x.digest.startswith("sha256:")
        assert not {"torch", "triton", "ops", "qual_ops"} & sys.modules.keys()

    @pytest.mark.kernelqual("qual_ops.py::host")
    def test_bytes(fixed_launch):
        plus, times = fixed_launch()
        assert plus.data == struct.pack("=3f", 1, 2, 3)
        assert times.data == struct.pack("=3f", 0, 1, 2)

    @pytest.mark.kernelqual("qual_ops.py::host")
    def test_mismatch_is_expected(qualify):
        record = qualify(Config(A=2))
        assert record.outcome == "mismatch"
        assert record.detail["mismatches"][0]["output"] == "return[1]"

    @pytest.mark.kernelqual("qual_ops.py::host")
    def test_fails(qualify):
        assert qualify(Config(A=1)).outcome == "mismatch"

    @pytest.mark.kernelqual("qual_ops.py::nothing")
    def test_no_output(fixed_launch, qualify):
        assert qualify(Config(A=1)).outcome == "not_run"
        with pytest.raises(KernelqualError, match="the launch returned None"):
            fixed_launch()

    @pytest.mark.kernelqual("qual_ops.py::nothing")
    def test_error_stands_at_this_line(fixed_launch):
        fixed_launch()  # here

    @pytest.mark.kernelqual(DOUBLED)
    def test_undeclared(qualify):
        assert qualify(Config(BLOCK=16, num_warps=1)).outcome == "qualified"

    @pytest.mark.kernelqual(DOUBLED)
    def test_wrong_configs(qualify):
        record = qualify(Config(BLOK=16))
        assert (record.outcome, "did you mean 'BLOCK'?" in record.reason) == ("unsupported", True)
        with pytest.raises(TypeError, match="takes a Config, not {'BLOCK': 1}"):
            qualify({"BLOCK": 1})
        with pytest.raises(KernelqualError, match="BLOCK=nan is not finite"):
            qualify(Config(BLOCK=float("nan")))

    @pytest.mark.kernelqual(DOUBLED)
    @pytest.mark.parametrize("block", [16, 32])
    def test_parametrized(qualify, block):
        assert qualify(Config(BLOCK=block)).outcome == "qualified"

    @pytest.mark.kernelqual(DOUBLED)
    class TestClass:
        def test_method(self, kernel_case, qualify):
            assert qualify(Config(BLOCK=64)).outcome == "qualified"

        def test_without_fixture(self):
            pass

    @pytest.mark.kernelqual("kernels/qual_ops.py::doubled")
    def test_path_from_the_root(kernel_case):
        pass

    @pytest.mark.kernelqual("qual_ops.py::missing")
    def test_no_spec(kernel_case): pass

    @pytest.mark.kernelqual("qual_missing.py::doubled")
    def test_no_file(kernel_case): pass

    @pytest.mark.kernelqual("qual_ops.py::wrong")
    def test_wrong_spec(kernel_case): pass

    @pytest.mark.kernelqual("qual_ops.py")
    def test_no_name(kernel_case): pass

    @pytest.mark.kernelqual(5)
    def test_number(kernel_case): pass

    @pytest.mark.kernelqual(5)
    def test_number_and_no_fixture(): pass

    @pytest.mark.kernelqual
    def test_no_argument(kernel_case): pass

    @pytest.mark.kernelqual(spec=DOUBLED)
    def test_keyword(kernel_case): pass

    @pytest.mark.kernelqual(DOUBLED)
    def test_hidden_fixture(request):
        request.getfixturevalue("qualify")

    def test_unmarked():
        raise AssertionError("not a qualification item")
"""

BY_OBJECT = """
    import pytest
    from qual_ops import doubled
    from pytest_kernelqual import Case, Config, kernel_spec

    @kernel_spec(candidates=[Config(A=1)], cases=[Case(n=2)])
    def here(case, seeded):
        x = seeded.arange(case.n)
        return lambda config: x + 1

    @pytest.mark.kernelqual(doubled)
    def test_object(qualify, kernel_case):
        assert qualify(Config(BLOCK=32)).outcome == "qualified"

    @pytest.mark.kernelqual(here)
    def test_spec_of_the_test_file(qualify):
        assert qualify(Config(A=1)).outcome == "qualified"
"""

HOOKS = """
    import json
    from pathlib import Path

    def pytest_kernelqual_case_finished(config, nodeid, case):
        with Path("heard").open("a") as file:
            print(json.dumps(["case", nodeid, case["passed"], config.rootpath.name]), file=file)

    def pytest_kernelqual_report(config, report):
        with Path("heard").open("a") as file:
            print(json.dumps(["report", report["complete"], len(report["kernels"])]), file=file)
"""

DEBUGGED = """
    from ops import double, double_kernel
    from pytest_kernelqual import Case, grid, kernel_spec

    @kernel_spec(kernel=double_kernel, candidates=grid(BLOCK=[32]), cases=[Case(n=10)])
    def debugged(case, seeded):
        mine = "local of the builder"
        {line}
        x = seeded.normal((case.n,))
        return lambda: double(x)
"""

MISMATCHING = """
    from pytest_kernelqual import Case, Config, kernel_spec

    def raising(x, config):
        if config and config["A"] == 1:
            raise ValueError("recorded")
        return x * (2 if config else 1)

    @kernel_spec(candidates=[Config(A=1), Config(A=2)], cases=[Case(n=3)])
    def host(case, seeded):
        x = seeded.arange(case.n, dtype="float32")
        return lambda config: raising(x, config)
"""

CHECKED_KERNEL = OPS.replace("        tl.store(", "        mine = missing if BLOCK == 32 else 0\n        tl.store(")
INI = "[pytest]\nkernelqual_paths = .\n"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Start the runs of this file."""
    with runs(tmp_path_factory.mktemp("fixtures")) as started:
        kernels = {"kernels/ops.py": OPS, "kernels/qual_ops.py": SPECS, "kernels/conftest.py": HOOKS}
        suite = {**kernels, "kernels/test_hand.py": TESTS, "pytest.ini": "[pytest]\n"}
        started.start("hand", suite, "-rA", "--strict-markers", "--kernelqual-seed=3")
        started.start("plain", suite, "kernels/test_hand.py", "-k", "not unmarked", kernelqual=False)
        started.start("object", {**kernels, "kernels/test_object.py": BY_OBJECT, "pytest.ini": "[pytest]\n"},
                      "kernels/test_object.py", "-rA")  # fmt: skip
        raising = DEBUGGED.format(line="if case.n: raise RuntimeError('planted')")
        breaking = DEBUGGED.format(line="breakpoint()")
        inside = ("--kernelqual-in-process", "-p", "no:randomly")
        started.start("builder", {"ops.py": OPS, "qual_a.py": raising, "pytest.ini": INI}, "--pdb", *inside,
                      stdin="p mine\nq\n")  # fmt: skip
        started.start("kernel", {"ops.py": CHECKED_KERNEL, "qual_a.py": DEBUGGED.format(line=""), "pytest.ini": INI},
                      "--pdb", *inside, stdin="p offset\nwhere\nq\n")  # fmt: skip
        started.start("breakpoint", {"ops.py": OPS, "qual_a.py": breaking, "pytest.ini": INI}, *inside,
                      stdin="p mine\nc\n")  # fmt: skip
        started.start("mismatch", {"qual_a.py": MISMATCHING, "pytest.ini": INI}, *inside)
        yield started


PASSING = [
    *(f"test_everything[n{n}]" for n in (64, 100)),
    *(f"test_undeclared[n{n}]" for n in (64, 100)),
    *(f"test_wrong_configs[n{n}]" for n in (64, 100)),
    *(f"test_parametrized[n{n}-{block}]" for n in (64, 100) for block in (16, 32)),
    *(f"TestClass::test_method[n{n}]" for n in (64, 100)),
    *(f"test_path_from_the_root[n{n}]" for n in (64, 100)),
    "TestClass::test_without_fixture",
    "test_bytes[n3]",
    "test_mismatch_is_expected[n3]",
    "test_no_output[n3]",
]


def test_fixtures(ran: Runs) -> None:
    """Every assertion of the hand-written tests above holds, once for each case."""
    hand = ran["hand"]
    ours = {nodeid for nodeid in hand.passed if "test_hand" in nodeid}
    assert ours == {f"kernels/test_hand.py::{name}" for name in PASSING}, hand.output
    assert "test_unmarked" not in hand.output


def test_record_of_a_hand_written_test_agrees_with_its_item(ran: Runs) -> None:
    """It holds what the test qualified, and passes as the test does, which judged the outcome itself."""
    cases = ran["hand"].cases

    def told(name: str) -> tuple[bool, list[tuple[str, str]]]:
        case = cases[f"kernels/test_hand.py::{name}"]
        return case["passed"], [(record["id"], record["outcome"]) for record in case["candidates"]]

    assert told("test_mismatch_is_expected[n3]") == (True, [("A=2", "mismatch")])
    assert told("test_fails[n3]") == (False, [("A=1", "qualified")])
    assert told("test_undeclared[n64]") == (True, [("BLOCK=16,num_warps=1", "qualified")])
    assert told("test_bytes[n3]") == (True, [])
    assert told("test_path_from_the_root[n64]") == (True, [])


MARKER_MESSAGES = {
    "test_no_spec": "the marker kernelqual names the spec 'missing', and qual_ops.py has: doubled, wrong, host",
    "test_no_file": "the marker kernelqual names 'qual_missing.py::doubled', and there is no file",
    "test_wrong_spec": "did you mean 'BLOCK'?",
    "test_no_name": "the marker kernelqual got 'qual_ops.py'; give one spec",
    "test_number": "the marker kernelqual got 5; give one spec",
    "test_number_and_no_fixture": "the marker kernelqual got 5; give one spec",
    "test_no_argument": "the marker kernelqual got (); give one spec",
    "test_keyword": "the marker kernelqual got (spec='qual_ops.py::doubled'); give one spec",
}


@pytest.mark.parametrize("name", MARKER_MESSAGES)
def test_wrong_marker_is_one_failing_item(ran: Runs, name: str) -> None:
    """Its message is the problem that the report tells."""
    hand = ran["hand"]
    assert f"ERROR kernels/test_hand.py::{name}[declaration] - Failed: " in hand.output
    assert MARKER_MESSAGES[name] in hand.kernels[f"kernels/test_hand.py::{name}"]["problem"]


def test_fixture_without_a_case_tells_what_to_do(ran: Runs) -> None:
    """Such a fixture cannot be asked for at run time."""
    reason = ran["hand"].failed["kernels/test_hand.py::test_hidden_fixture"]
    assert "mark it @pytest.mark.kernelqual(spec), and take the fixtures as arguments" in reason


def test_error_of_a_fixture_shows_the_line_of_the_test(ran: Runs) -> None:
    """And no frame of the plugin."""
    shown = ran["hand"].output.partition("test_error_stands_at_this_line[n3] _")[2].partition("\n____")[0]
    assert ">       fixed_launch()  # here" in shown
    assert "session.py" not in shown
    assert "fixtures.py" not in shown


def test_marked_tests_are_left_out_of_a_plain_run(ran: Runs) -> None:
    """And the run says why nothing ran."""
    plain = ran["plain"]
    assert plain.status == 5
    assert re.search(r"(?m)^kernelqual: \d+ tests marked kernelqual were left out; add --kernelqual", plain.output)


def test_spec_as_an_object(ran: Runs) -> None:
    """Imported from a spec file, or declared in the test file itself."""
    assert ran["object"].passed == {
        "kernels/test_object.py::test_object[n100]",
        "kernels/test_object.py::test_object[n64]",
        "kernels/test_object.py::test_spec_of_the_test_file[n2]",
    }, ran["object"].output


def test_hooks_hear_of_each_case_and_of_the_report(ran: Runs) -> None:
    """Once each, the report last."""
    hand = ran["hand"]
    heard = [eval(line, {"true": True, "false": False}) for line in (hand.folder / "heard").read_text().splitlines()]  # noqa: S307 - what our own conftest wrote
    cases = {nodeid: case["passed"] for nodeid, case in hand.cases.items()}
    assert {nodeid: passed for kind, nodeid, passed, root in heard[:-1] if root == "hand"} == cases
    assert len(heard) == len(cases) + 1
    assert heard[-1] == ["report", hand.report["complete"], len(hand.report["kernels"])]


def test_post_mortem_in_the_builder(ran: Runs) -> None:
    """The innermost frame is the user's, and the message is that of the record."""
    told = ran["builder"].output
    assert "qual_a.py(8)debugged()" in told
    assert "(Pdb) 'local of the builder'" in told
    assert "RuntimeError: planted" in told
    assert "fixed launch: not_run: the builder raised RuntimeError: planted" in told


def test_post_mortem_in_the_kernel(ran: Runs) -> None:
    """The interpreter's own exception does not hide the frame of the kernel."""
    told = ran["kernel"].output
    assert re.search(r"> .*ops\.py\(\d+\)double_kernel\(\)", told)
    assert "(Pdb) <triton.language.core.tensor object" in told
    assert "NameError: name 'missing' is not defined" in told


def test_breakpoint_in_the_pytest_process(ran: Runs) -> None:
    """It stops there, and the run goes on."""
    stopped = ran["breakpoint"]
    assert "(Pdb) 'local of the builder'" in stopped.output
    assert stopped.status == 0


def test_breakpoint_in_the_device_process_is_passed_over(ran: Runs) -> None:
    """The builder of `doubled` has one."""
    assert "kernels/qual_ops.py::doubled::test_candidates[n64]" in ran["hand"].passed


def test_mismatch_in_the_pytest_process_is_told_as_ever(ran: Runs) -> None:
    """The exception of another candidate is not what failed."""
    told = ran["mismatch"].output
    assert "A=2: mismatch: 2 of 3 elements differ" in told
    assert "fixtures.py" not in told
