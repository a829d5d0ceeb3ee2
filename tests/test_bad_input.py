"""What bad input gets: one clear error, and nothing lost of the rest."""

from collections.abc import Iterator

import pytest
from scenarios import OPS, Runs, runs

GOOD = """
    from ops import double, double_kernel
    from pytest_kernelqual import Case, grid, kernel_spec

    @kernel_spec(kernel=double_kernel, candidates=grid(BLOCK=[32]), cases=[Case(n=10)])
    def {name}(case, seeded):
        x = seeded.normal((case.n,))
        return lambda: double(x)
"""

# Spec files that cannot be imported or declare nothing, each with what its one failing item says.
FILES = {
    "syntax": ("def broken(:\n    pass\n", "SyntaxError: "),
    "missing_name": ("from ops import missing_kernel\n", "ImportError: cannot import name 'missing_kernel' from 'ops'"),
    "missing_module": ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
    "missing_attribute": ("import ops\nKERNEL = ops.gone\n", "AttributeError: module 'ops' has no attribute 'gone'"),
    "raises": ("raise ValueError('planted \\udcff')\n", r"ValueError: planted \udcff"),
    "exits": ("import sys\nsys.exit('planted exit')\n", "SystemExit: planted exit"),
    "skips": ("import pytest\npytest.importorskip('no_such_module')\n", "Skipped: could not import 'no_such_module'"),
    "no_spec": ("X = 1\n", "declares no spec; decorate a builder with @kernel_spec(...) or rename the file"),
    "empty": ("", "declares no spec"),
    "binary": ("\0\1\2", "SyntaxError: "),
    "aborts": ("import os\nos.abort()\n", "ended the device process: the device process was ended by SIGABRT"),
    "leaves": ("import os\nos._exit(3)\n", "ended the device process: the device process exited with status 3"),
    "hangs": ("import time\ntime.sleep(600)\n", "ended the device process: no answer within 15 s"),
}

NOISY = "import os, sys\nprint('noise')\nos.write(1, b'\\xff\\x00\\n')\nos.write(2, b'{}\\n')\nos.chdir('/')\n"

SPECS = """
    import os
    import sys

    import torch
    from ops import double, double_kernel
    from pytest_kernelqual import Case, Config, grid, kernel_spec


    def forced(**options):
        given = {"kernel": double_kernel, "candidates": grid(BLOCK=[32]), "cases": [Case(n=8)], **options}
        return kernel_spec(**given)


    def taken(**options):
        return kernel_spec(**{"candidates": [Config(A=1), Config(A=2)], "cases": [Case(n=8)], **options})


    @forced()
    def raises(case, seeded):
        if case.n:
            raise ValueError("planted in the builder \\udcff")
        return lambda: None

    @forced()
    def prints(case, seeded):
        print("noise of the builder")
        os.write(1, b"\\xff\\xfe\\n")
        x = seeded.normal((case.n,))
        return lambda: double(x)

    @forced()
    def number(case, seeded):
        return case.n

    @forced()
    def sometimes_none(case, seeded):
        if case.n == 5:
            return lambda: None

    @forced()
    def no_axis(case, seeded):
        return seeded.normal((case.rows,))

    @forced()
    def never_launched(case, seeded):
        x = seeded.normal((case.n,))
        return lambda: x * 2

    @forced(cases=[Case(n=0)])
    def zero_size(case, seeded):
        x = seeded.normal((case.n,))
        return lambda: double(x)

    @taken()
    def zero_size_partly(case, seeded):
        x = seeded.normal((case.n,))
        return lambda config: (x[:0], x * 2)

    @taken()
    def returns_nothing(case, seeded):
        x = seeded.normal((case.n,))
        return lambda config: None

    @taken()
    def returns_object(case, seeded):
        x = seeded.normal((case.n,))
        return lambda config: object()

    @taken()
    def other_device(case, seeded):
        x = seeded.normal((case.n,))
        return lambda config: torch.empty(3, device="meta")

    @taken()
    def input_of_another_device(case, seeded):
        x = seeded.adopt(torch.empty(3, device="meta"), name="x")
        return lambda config: x + 1

    @taken()
    def unknown_input(case, seeded):
        x = torch.ones(3)
        return lambda config: x * 2

    LAUNCHES = []

    def growing(x):
        LAUNCHES.append(x)
        return [x * 2] * len(LAUNCHES)

    @taken()
    def grows(case, seeded):
        x = seeded.normal((case.n,))
        return lambda config: growing(x)

    @taken()
    def more_outputs(case, seeded):
        x = seeded.normal((case.n,))
        return lambda config: [x * 2] * (config["A"] if config else 1)

    @taken()
    def shorter(case, seeded):
        x = seeded.normal((case.n,))
        return lambda config: (x * 2)[: 4 if config and config["A"] == 2 else 8]

    @taken()
    def config_refused(case, seeded):
        x = seeded.normal((case.n,))
        return lambda: x * 2

    @taken()
    def two_arguments(case, seeded):
        x = seeded.normal((case.n,))
        return lambda first, second: x * 2

    @taken()
    def launch_raises(case, seeded):
        x = seeded.normal((case.n,))

        def launch(config):
            if config and config["A"] == 1:
                raise ValueError("planted in the launch \\udcff")
            return x * 2

        return launch

    @taken(exclude=lambda config, case: case.missing)
    def exclude_raises(case, seeded):
        x = seeded.normal((case.n,))
        return lambda config: x * 2

    @taken(exclude=lambda config, case: "never \\udcff")
    def all_excluded(case, seeded):
        x = seeded.normal((case.n,))
        return lambda config: x * 2

    @taken()
    def builder_aborts(case, seeded):
        if case.n:
            os.abort()
        return lambda config: None

    @taken()
    def launch_exits(case, seeded):
        x = seeded.normal((case.n,))
        return lambda config: sys.exit("planted exit") if config and config["A"] == 1 else x * 2
"""

# It imports from the folder above, also in a device process that was started for it alone.
BELOW = (
    SPECS.partition("    @forced()\n")[0]
    + """
    @taken()
    def below(case, seeded):
        x = seeded.normal((case.n,))
        return lambda config: os.abort() if config and config["A"] == 1 else x * 2
"""
)

FIXED_LAUNCH = {
    "raises": r"not_run: the builder raised ValueError: planted in the builder \udcff",
    "number": "not_run: the builder returned int, not a launch; end it with `return lambda: my_op(...)`",
    "sometimes_none": "not_run: the builder returned NoneType, not a launch",
    "no_axis": "not_run: the builder raised AttributeError: the case has no axis 'rows'; axes: n",
    "never_launched": "not_run: the kernel double_kernel was never launched",
    "zero_size": "nothing that can be compared",
    "returns_nothing": "not_run: the launch returned None and changed no input: nothing that can be compared",
    "returns_object": "not_run: return is a builtins.object, which cannot be compared",
    "other_device": "not_run: return is a meta tensor, which cannot be compared",
    "input_of_another_device": "is on meta, expected cpu; move it there",
    "unknown_input": "not_run: the launch uses a tensor that seeded did not make: `x`",
    "grows": "nondeterministic: two fixed launches on the same inputs gave different bytes",
    "config_refused": "not_run: without kernel= the launch must take the config",
    "two_arguments": "not_run: the launch takes (first, second); it must take nothing or the config alone",
    "builder_aborts": "fault: the device process was ended by SIGABRT in phase inputs",
}

CANDIDATES = {
    "more_outputs": [("qualified", ""), ("mismatch", "return[1]: not an output of the fixed launch")],
    "shorter": [("qualified", ""), ("mismatch", "shape (4,) instead of (8,)")],
    "launch_raises": [
        ("launch_error", r"the launch raised ValueError: planted in the launch \udcff"),
        ("qualified", ""),
    ],
    "exclude_raises": [("not_run", "exclude= raised AttributeError: the case has no axis 'missing'")] * 2,
    "all_excluded": [("unsupported", r"excluded by the spec: never \udcff")] * 2,
    "zero_size_partly": [("qualified", ""), ("qualified", "")],
    "launch_exits": [("fault", "the device process exited with status 1 in phase run"), ("qualified", "")],
    "prints": [("qualified", "")],
}

INI = "[pytest]\nkernelqual_paths = .\n"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Start the runs of this file."""
    with runs(tmp_path_factory.mktemp("bad_input")) as started:
        files = {f"qual_{name}.py": text for name, (text, _) in FILES.items()}
        noisy = {"qual_noisy.py": NOISY + GOOD.format(name="noisy").replace("\n    ", "\n")}
        last = {"qual_zz.py": GOOD.format(name="last"), "pytest.ini": INI}
        started.start("files", {"ops.py": OPS, **files, **noisy, **last},
                      "-rA", "-p", "no:randomly", "--kernelqual-start-timeout=15")  # fmt: skip
        started.start("specs", {"ops.py": OPS, "qual_specs.py": SPECS, "sub/qual_below.py": BELOW, "pytest.ini": INI},
                      "-rA", "-p", "no:randomly")  # fmt: skip
        hidden = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
        suite = {"ops.py": OPS, "qual_a.py": GOOD.format(name="good"), "pytest.ini": INI}
        started.start("cuda", suite, "--kernelqual-device=cuda", environment=hidden)
        started.start("hip", suite, "--kernelqual-device=hip:1", "--collect-only", environment=hidden)
        started.start("auto", suite, "--kernelqual-device=auto", environment=hidden)
        yield started


@pytest.mark.parametrize("name", FILES)
def test_file_that_cannot_be_used_is_one_failing_item(ran: Runs, name: str) -> None:
    """Its message begins with the reason, and the other files go on."""
    files = ran["files"]
    nodeid = f"qual_{name}.py::declaration"
    assert FILES[name][1] in files.failed[f"{nodeid}::test_declaration"]
    assert FILES[name][1] in files.kernels[nodeid]["problem"]


def test_files_beside_broken_ones_are_run(ran: Runs) -> None:
    """One that writes to every stream and goes to another folder among them."""
    assert ran["files"].passed == {
        "qual_noisy.py::noisy::test_candidates[n10]",
        "qual_zz.py::last::test_candidates[n10]",
    }
    assert len(ran["files"].failed) == len(FILES)
    assert "INTERNALERROR" not in ran["files"].output


def test_import_errors_show_the_users_lines_and_none_of_ours(ran: Runs) -> None:
    """As if pytest had imported the file."""
    shown = ran["files"].output.partition("FAILURES")[2].partition("= kernelqual =")[0]
    for name, line in (("missing_name", "from ops import missing_kernel"), ("raises", "raise ValueError('planted")):
        assert f'qual_{name}.py", line 1, in <module>\n    {line}' in shown
    problem = ran["files"].kernels["qual_missing_name.py::declaration"]["problem"]
    assert "loader.py" not in problem
    assert "importlib" not in problem


@pytest.mark.parametrize("name", FIXED_LAUNCH)
def test_case_without_a_fixed_launch_fails_with_the_reason(ran: Runs, name: str) -> None:
    """No candidate of it is compared."""
    kernel = ran["specs"].kernels[f"qual_specs.py::{name}"]
    (case,) = kernel["cases"]
    told = f"{case['fixed']['outcome']}: {case['fixed']['reason']}"
    assert FIXED_LAUNCH[name] in told
    assert {record["outcome"] for record in case["candidates"]} == {"not_run"}
    assert FIXED_LAUNCH[name] in ran["specs"].failed[case["nodeid"]]


@pytest.mark.parametrize("name", CANDIDATES)
def test_candidates_have_outcomes_of_their_own(ran: Runs, name: str) -> None:
    """What one of them does costs it alone."""
    (case,) = ran["specs"].kernels[f"qual_specs.py::{name}"]["cases"]
    told = [(record["outcome"], record["reason"]) for record in case["candidates"]]
    assert [outcome for outcome, _ in told] == [outcome for outcome, _ in CANDIDATES[name]]
    for (_, reason), (_, expected) in zip(told, CANDIDATES[name], strict=True):
        assert expected in reason


def test_case_in_which_nothing_was_compared_fails(ran: Runs) -> None:
    """Though no candidate of it does."""
    for name in ("exclude_raises", "all_excluded"):
        (case,) = ran["specs"].kernels[f"qual_specs.py::{name}"]["cases"]
        assert ran["specs"].failed[case["nodeid"]].startswith("Failed: nothing was compared with the fixed launch")


def test_builder_that_raises_shows_its_line(ran: Runs) -> None:
    """In the failing item."""
    shown = ran["specs"].output.partition("raises.test_candidates")[2].partition("\n____")[0]
    assert 'raise ValueError("planted in the builder' in shown


def test_nothing_is_called_a_fault_of_the_tool(ran: Runs) -> None:
    """Whatever texts users' code raises."""
    for name in ("files", "specs"):
        assert "fault of the tool" not in ran[name].output
        assert "fault of the tool" not in str(ran[name].report)


def test_restarted_device_process_finds_what_other_files_made_importable(ran: Runs) -> None:
    """The folder above was put on the path by another spec file."""
    (case,) = ran["specs"].kernels["sub/qual_below.py::below"]["cases"]
    assert [record["outcome"] for record in case["candidates"]] == ["fault", "qualified"]


@pytest.mark.parametrize(("name", "device"), [("cuda", "cuda"), ("hip", "hip:1")])
def test_device_that_is_not_there_is_an_error(ran: Runs, name: str, device: str) -> None:
    """Also where things are only collected; never a pass."""
    ended = ran[name]
    assert ended.status == 4
    assert f"device '{device}' was asked for and torch" in ended.output
    assert "sees no GPU; use --kernelqual-device=auto or interpreter" in ended.output
    assert not list(ended.folder.glob("qualified-configurations*"))


def test_auto_without_a_gpu_says_so(ran: Runs) -> None:
    """In the header and in the report."""
    assert ran["auto"].status == 0
    assert "kernelqual: no GPU is used" in ran["auto"].output
    assert ran["auto"].report["environment"]["device"]["kind"] == "interpreter"
