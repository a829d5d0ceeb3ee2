"""Terminal text: what is told, in which order, and that nothing hostile or endless reaches the terminal."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from report_samples import (
    ENVIRONMENT,
    candidate,
    candidates,
    case,
    cases,
    kernel,
    kernels,
    mismatching,
)

from pytest_kernelqual.model.outcome import OUTCOMES
from pytest_kernelqual.model.record import CandidateRecord, CaseRecord, DeviceDescriptor, FixedRecord, KernelRecord
from pytest_kernelqual.report.document import build
from pytest_kernelqual.report.phrases import clean
from pytest_kernelqual.report.text import candidate_line, failure_text, summary

FIGURES = "12 of 4096 elements differ, first at (3, 17): expected 1.5 got 1.25, max 1 ULP (rounding)"


def shown(*records: KernelRecord, width: int = 120) -> str:
    """Return the summary of a run on a device."""
    return summary(build(records, ENVIRONMENT, []), width=width)


def test_summary_of_a_small_run_reads_as_a_page() -> None:
    """Header, table, then what failed with its reason."""
    records = [
        kernel(
            case(candidate("num_warps=8"), mismatching(), candidate("BLOCK=256", "out_of_resources", reason="too big"))
        ),
        kernel(case(candidate("num_warps=8"), id_="rows64", dead_axes=["num_stages"]), name="softmax"),
    ]
    document = build(records, ENVIRONMENT, ["a"], ["-k rms"])
    assert (
        summary(document, width=120)
        == f"""\
device: NVIDIA H200 (cuda, sm_90, 132 compute units)
versions: torch 2.13.0, triton 3.7.1, python 3.11.9, driver 550.1
inputs: seed 0, 2 input sets a case, 4 launches of a candidate on each
compared: 3 candidate runs of 3 kernel and config pairs
evidence: 2 identical_bytes
report: INCOMPLETE
  -k rms
digest: {document.digest}

kernel          cases    candidates    qualified    mismatch    out_of_resources
------------  -------  ------------  -----------  ----------  ------------------
rms_norm_fwd        1             3            1           1                   1
softmax             1             1            1
all 2               2             4            2           1                   1

failing candidates (1)
  rms_norm_fwd[rows3-cols515-float16] num_warps=16: mismatch
      {FIGURES}

recorded, not failing (1)
  rms_norm_fwd[rows3-cols515-float16] BLOCK=256: out_of_resources: too big

dead axes, which change nothing in what is launched
  softmax: num_stages (1 of 1 case)"""
    )


def test_summary_tells_the_interpreter_and_a_missing_device() -> None:
    """Neither is ever taken for a GPU."""
    interpreter = DeviceDescriptor(kind="interpreter", name="cpu", architecture="x86_64")
    text = summary(build([], replace(ENVIRONMENT, device=interpreter), []))
    assert "device: Triton interpreter (semantics only: no GPU ran these kernels)" in text
    assert "device: none answered; nothing ran\n" in summary(build([], None, []))


def test_summary_wraps_its_header() -> None:
    """Nothing of it is lost in a narrow terminal."""
    names = ["cancelling", "mixed", "exponents", "constant", "equal_rows", "ties", "denormals", "boundaries", "one_hot"]
    text = summary(build([], replace(ENVIRONMENT, profiles=names), []), width=80)
    assert (
        "profiles: one more input set each of cancelling, mixed, exponents, constant,\n"
        "    equal_rows, ties, denormals, boundaries, one_hot\n" in text
    )


def test_summary_puts_what_stops_judging_first() -> None:
    """A broken file and a fixed launch that is no reference come before any candidate."""
    traceback = "kernels/qual_b.py cannot be imported\nTraceback ...\n  File ...\nImportError: no module named x\n"
    text = shown(
        kernel(case(candidate("a", "fault", reason="illegal access"))),
        kernel(case(fixed=FixedRecord(outcome="nondeterministic", reason="differs from itself")), name="scan"),
        kernel(name="broken", problem=traceback),
        kernel(case(candidate("own", same_as_fixed=True)), name="alone"),
    )
    titles = [line.split(" (")[0] for line in text.splitlines() if line.endswith(")") and line[0].isalpha()]
    assert titles[1:] == [
        "declaration problems",
        "fixed launches that cannot serve as reference",
        "cases that fail for another reason",
        "failing candidates",
    ]
    assert "  broken: kernels/qual_b.py cannot be imported ... ImportError: no module named x\n" in text
    assert "  scan[rows3-cols515-float16]: nondeterministic: differs from itself\n" in text
    assert "  alone[rows3-cols515-float16]: nothing was compared with the fixed launch" in text


def test_summary_groups_equal_reasons_over_cases_and_candidates() -> None:
    """A config space that is too big for the device is one line."""
    too_big = [candidate(f"BLOCK={n}", "out_of_resources", reason="shared memory: 300 of 200") for n in range(50)]
    text = shown(kernel(case(candidate(), *too_big, id_="one"), case(candidate(), *too_big, id_="two")))
    assert "recorded, not failing (100)\n" in text
    assert "  rms_norm_fwd[one and 1 more] BLOCK=0 and 49 more: out_of_resources: shared memory: 300 of 200" in text
    assert text.count("shared memory") == 1


def test_summary_bounds_what_one_kernel_may_fill() -> None:
    """A kernel with many different failures does not push the others off the screen, and the rest is counted."""
    noisy = [candidate(f"BLOCK={n}", "fault", reason=f"address {n}") for n in range(1000)]
    text = shown(kernel(case(*noisy)), kernel(case(mismatching()), name="softmax"))
    assert len(text.splitlines()) < 40
    assert "failing candidates (1001)\n" in text
    assert "  and 992 more: 992 of rms_norm_fwd" in text
    assert "softmax[rows3-cols515-float16] num_warps=16: mismatch" in text


def test_summary_gives_every_kernel_a_line() -> None:
    """Of many failing kernels, each is named."""
    two = case(mismatching("a"), candidate("b", "fault", reason="x"))
    text = shown(*(kernel(two, name=f"kernel_{n}") for n in range(100)))
    assert all(f"  kernel_{n}[rows3-cols515-float16] a: mismatch\n" in text for n in range(100))
    assert "  and 100 more: 1 of kernel_0, 1 of kernel_1, 1 of kernel_2 and 97 more" in text


def test_summary_tells_recorded_outcomes_compactly() -> None:
    """Reasons that differ in a number are one line with an example."""
    big = [candidate(f"BLOCK={n}", "out_of_resources", reason=f"shared memory: {n} of 9") for n in (10, 11, 12)]
    slow = candidate("BLOCK=99", "timeout", phase="compile", reason="limit 120 s")
    text = shown(kernel(case(candidate("ok"), *big, slow)), width=140)
    assert text.endswith(
        "recorded, not failing (4)\n"
        "  rms_norm_fwd[rows3-cols515-float16] BLOCK=10 and 2 more: out_of_resources: "
        "shared memory: 10 of 9 (and 2 other reasons)\n"
        "  rms_norm_fwd[rows3-cols515-float16] BLOCK=99: timeout: limit 120 s"
    )


def test_screened_kernel_records_what_would_fail_elsewhere() -> None:
    """Bad members of a search space are expected; a tightened run fails them all the same."""
    bad = mismatching()
    screened = kernel(case(bad, screen="search"), screen="search")
    assert "recorded, not failing (1)" in shown(screened)
    assert "failing candidates" not in shown(screened)
    assert "rms_norm_fwd (screened)" in shown(screened)
    tightened = replace(screened.cases[0], passed=False, failures=["num_warps=16: mismatch: bytes differ"])
    assert "failing candidates (1)" in shown(replace(screened, cases=[tightened]))


def test_compile_timeout_is_recorded_and_run_timeout_fails() -> None:
    """The phase decides."""
    slow = [candidate(phase, "timeout", phase=phase, reason="limit 60 s") for phase in ("compile", "run")]
    text = shown(kernel(case(*slow)))
    assert "failing candidates (1)\n  rms_norm_fwd[rows3-cols515-float16] run: timeout" in text
    assert "recorded, not failing (1)\n  rms_norm_fwd[rows3-cols515-float16] compile: timeout" in text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, FIGURES),
        ({"output": "input x.grad"}, f"input x.grad: {FIGURES}"),
        ({"note": "shape (3, 4) instead of (3, 5)"}, "shape (3, 4) instead of (3, 5)"),
        (
            {"diagnosis": "structural", "max_absolute": 123.456, "max_ulp": 900, "nonfinite_actual": 2},
            FIGURES.replace(
                "max 1 ULP (rounding)", "max 900 ULP, max difference 123, 2 NaN or infinite instead of 0 (structural)"
            ),
        ),
        (
            {"elements": 1, "differing": 1, "max_ulp": None, "first_index": [], "diagnosis": "sign_of_zero"},
            "1 of 1 element differ, first at (): expected 1.5 got 1.25 (sign of zero)",
        ),
    ],
)
def test_mismatch_is_told_by_its_figures(changes: dict[str, object], text: str) -> None:
    """How many, where, by how much, and what kind of difference it is."""
    assert candidate_line(mismatching(**changes)) == f"num_warps=16: mismatch: {text}"


def test_mismatch_of_several_outputs_counts_the_others() -> None:
    """The first is shown."""
    record = mismatching()
    several = replace(record, detail={"mismatches": record.detail["mismatches"] * 3})
    assert candidate_line(several) == f"num_warps=16: mismatch: {FIGURES}; also in 2 more outputs"


def test_mismatch_without_usable_figures_is_told_by_its_reason() -> None:
    """Facts of an unexpected form lose nothing and break nothing."""
    assert candidate_line(mismatching(elements="many")) == "num_warps=16: mismatch: bytes differ"


def test_failure_text_of_an_item_is_short_and_says_why() -> None:
    """Count first, then each reason once."""
    faults = [candidate(f"BLOCK={n}", "fault", reason="illegal access") for n in range(3)]
    assert failure_text(case(candidate("ok"), mismatching(), *faults)) == (
        f"4 of 5 candidates failed:\n  num_warps=16: mismatch: {FIGURES}\n  BLOCK=0 and 2 more: fault: illegal access"
    )


def test_failure_text_tells_the_fixed_launch_first() -> None:
    """Nothing can be compared with it."""
    failed = case(fixed=FixedRecord(outcome="fault", reason="illegal access"))
    assert failure_text(failed) == "fixed launch: fault: illegal access"


def test_failure_text_keeps_lines_that_name_no_candidate() -> None:
    """Whatever a run says about a failed case is shown."""
    ended = replace(case(mismatching()), failures=["the run ended before this case was finished"])
    assert failure_text(ended) == "the run ended before this case was finished"
    assert failure_text(case(candidate("own", same_as_fixed=True))).startswith("nothing was compared")


def test_failure_text_of_a_case_that_passed_is_empty() -> None:
    """Recorded outcomes are no failures."""
    assert failure_text(case(candidate("ok"), candidate("big", "out_of_resources", reason="x"))) == ""


def test_failure_text_is_bounded() -> None:
    """A thousand different reasons make a page, not a flood."""
    many = case(*(candidate(f"BLOCK={n}", "fault", reason=f"address {n}") for n in range(1000)))
    lines = failure_text(many).splitlines()
    assert len(lines) == 13
    assert lines[-1] == "  and 989 more; the JSON report holds them all"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        ("a\nb\r\n\tc", "a b c"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\x00b\x7fc\x9bd", "a b c\\x9bd"),
        ("caf\u00e9 \u2028", "caf\\xe9 \\u2028"),
        ("\ud800", "\\ud800"),
        ("  padded  ", "padded"),
        ("x" * 30, "x" * 17 + "..."),
    ],
)
def test_clean_leaves_one_printable_ascii_line(text: str, cleaned: str) -> None:
    """A name cannot move the cursor, colour the screen or begin a line of its own."""
    assert clean(text, 20) == cleaned


@settings(deadline=None)
@given(candidates)
def test_candidate_line_is_one_printable_ascii_line(record: CandidateRecord) -> None:
    """Whatever names and reasons hold."""
    line = candidate_line(record)
    assert line.isascii()
    assert line.isprintable()


@settings(deadline=None)
@given(cases)
def test_failure_text_is_printable_and_never_raises(one: CaseRecord) -> None:
    """Whatever a case holds."""
    text = failure_text(one)
    assert text.isascii()
    assert all(line.isprintable() for line in text.split("\n"))


@settings(deadline=None)
@given(kernels, st.integers(0, 200), st.lists(st.text(max_size=5), max_size=12))
def test_summary_fits_its_width_below_the_table(records: list[KernelRecord], width: int, why: list[str]) -> None:
    """Whatever a run holds: plain ASCII, and sections as wide as asked, but at least 60."""
    document = build(records, ENVIRONMENT, [], why)
    text = summary(document, width=width)
    assert text.isascii()
    assert all(line.isprintable() for line in text.split("\n"))
    blocks = text.split("\n\n")
    header, digest = blocks[0].split("\n")[:-1], blocks[0].split("\n")[-1]
    assert digest == f"digest: {document.digest}"
    sections = [line for block in blocks[2:] for line in block.split("\n")]
    assert all(len(line) <= max(width, 60) for line in [*header, *sections])


def test_wide_table_tells_other_outcomes_in_one_column() -> None:
    """Every outcome fits a terminal of 80 columns, whatever occurs."""
    records = kernel(case(candidate("ok"), *(candidate(outcome, outcome, reason=".") for outcome in OUTCOMES[1:])))
    table = shown(records, width=80).split("\n\n")[1]
    assert max(map(len, table.splitlines())) <= 80
    words = " ".join(table.split())
    assert "kernel cases candidates qualified other outcomes" in words
    assert all(f"1 {outcome}" in words for outcome in OUTCOMES[1:])
