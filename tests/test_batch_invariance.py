"""Rows alone and inside the batch: what is told of them, what a spec can require, what cannot be told."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scenarios import Ran, runs

from pytest_kernelqual.model.case import Case
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.spec import kernel_spec
from pytest_kernelqual.on_device.batch import Part, parts_of

SPECS = """
    import torch
    import triton
    import triton.language as tl
    from pytest_kernelqual import Case, Config, grid, kernel_spec

    CASES = [Case(rows=8, cols=6)]

    @triton.jit
    def scale_in_place(x, cols, BLOCK: tl.constexpr):
        offset = tl.arange(0, BLOCK)
        at = x + tl.program_id(0) * cols + offset
        tl.store(at, tl.load(at, mask=offset < cols) * 3, mask=offset < cols)

    @triton.jit
    def sums_kernel(x, y, cols, BLOCK: tl.constexpr):
        total = 0.0
        for start in range(0, cols, BLOCK):
            offset = start + tl.arange(0, BLOCK)
            total += tl.sum(tl.load(x + tl.program_id(0) * cols + offset, mask=offset < cols, other=0.0))
        tl.store(y + tl.program_id(0), total)

    def modes(*names):
        return [Config(MODE=name) for name in names]

    def doubled(x, mode):
        y = x * 2
        if mode == "alone" and len(x) == 1:
            y[0, 3] += 1
        if mode == "raises" and len(x) < 8:
            raise ValueError("too few rows")
        if mode == "total":
            return y.double().sum(dtype=torch.float64)
        if mode == "many":
            return [y] * len(x)
        return y

    @kernel_spec(candidates=modes("same", "alone", "raises"), cases=CASES, batch_axis="rows")
    def told(case, seeded):
        x = seeded.normal((case.rows, case.cols), name="x")
        return lambda config: doubled(x, config and config["MODE"])

    @kernel_spec(candidates=modes("same", "alone", "raises"), cases=CASES, batch_axis="rows", batch_invariant=True)
    def required(case, seeded):
        x = seeded.normal((case.rows, case.cols), name="x")
        return lambda config: doubled(x, config and config["MODE"])

    @kernel_spec(candidates=modes("same"), cases=CASES, batch_axis="rows", batch_invariant=True)
    def production_varies(case, seeded):
        x = seeded.normal((case.rows, case.cols), name="x")
        return lambda config: doubled(x, "alone")

    @kernel_spec(candidates=modes("same"), cases=CASES, batch_axis="rows", batch_invariant=True)
    def production_untold(case, seeded):
        x = seeded.normal((case.rows, case.cols), name="x")
        return lambda config: doubled(x, "total")

    @kernel_spec(candidates=modes("same"), cases=CASES, batch_axis="rows")
    def other_outputs(case, seeded):
        x = seeded.normal((case.rows, case.cols), name="x")
        return lambda config: doubled(x, "many")

    @kernel_spec(candidates=modes("same"), cases=[Case(rows=1, cols=6)], batch_axis="rows")
    def one_row(case, seeded):
        x = seeded.normal((case.rows, case.cols), name="x")
        return lambda config: doubled(x, None)

    @kernel_spec(candidates=modes("same"), cases=CASES, batch_axis="rows")
    def layouts(case, seeded):
        heads = 3
        flat = seeded.normal((case.rows * heads, case.cols), dtype="bfloat16", name="flat")
        last = seeded.uniform((case.cols, case.rows), layout="column_major", name="last")
        weight = seeded.normal((case.cols,), name="weight")
        ids = seeded.randint(0, 100, (case.rows, 2), name="ids")
        kept = seeded.bernoulli((case.rows,), name="kept")
        order = seeded.permutation(case.cols, name="order")
        places = seeded.arange(case.rows, name="places")
        lengths = seeded.full((case.rows,), case.cols, name="lengths")
        made = seeded.adopt((ids * 2 + lengths[:, None]), name="made")

        def launch(config):
            y = (last.t()[places] * weight)[:, order] * kept[:, None]
            total = (weight * 2).sum()
            return {"flat": flat * 2, "y": y, "turned": y.t().contiguous(), "made": made + ids, "total": total}

        return launch

    @kernel_spec(candidates=modes("same"), cases=CASES, batch_axis="rows")
    def pointing(case, seeded):
        x = seeded.normal((case.rows, case.cols), name="x")
        rows = seeded.randint(0, case.rows, (case.rows,), name="rows")
        return lambda config: x[rows]

    @kernel_spec(candidates=modes("same"), cases=CASES, batch_axis="rows")
    def shuffled(case, seeded):
        x = seeded.normal((case.rows, case.cols), name="x")
        rows = seeded.permutation(case.rows, name="rows")
        return lambda config: x[rows]

    @kernel_spec(candidates=modes("same"), cases=CASES, batch_axis="rows")
    def square(case, seeded):
        x = seeded.normal((case.rows, case.rows), name="x")
        return lambda config: x * 2

    @kernel_spec(kernel=scale_in_place, candidates=grid(BLOCK=[16, 32]), cases=CASES, batch_axis="rows",
                 grid=lambda meta: (meta["x"].shape[0],))
    def changed(case, seeded):
        x = seeded.normal((case.rows, case.cols), name="x")
        def launch():
            scale_in_place[(len(x),)](x, case.cols, BLOCK=8)
        return launch

    @kernel_spec(kernel=sums_kernel, candidates=grid(num_warps=[1, 2]), cases=[Case(rows=8, cols=1000)],
                 batch_axis="rows", batch_invariant=True)
    def chosen_by_rows(case, seeded):
        x = seeded.normal((case.rows, case.cols), name="x")
        def launch():
            y = torch.empty(len(x))
            sums_kernel[(len(x),)](x, y, case.cols, BLOCK=64 if len(x) > 4 else 512)
            return y
        return launch
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """Return the run of all specs."""
    with runs(tmp_path_factory.mktemp("batch")) as started:
        started.start("all", {"qual_batch.py": SPECS}, "qual_batch.py", "-rA")
        yield started["all"]


def case_of(ran: Ran, name: str) -> dict[str, Any]:
    """Return the only case of a spec."""
    (case,) = ran.kernels[f"qual_batch.py::{name}"]["cases"]
    return dict(case)


def told_of(record: dict[str, Any]) -> tuple[Any, str, str]:
    """Return what a record says of the batch, after its outcome."""
    return record["outcome"], record["batch_invariant"], record["batch_note"]


def test_rows_alone_are_held_against_the_batch(ran: Ran) -> None:
    """Per config, with what differs, why it cannot be told, and without failing anything."""
    case = case_of(ran, "told")
    same, alone, raises = case["candidates"]
    assert told_of(case["fixed"]) == told_of(same) == ("qualified", True, "")
    assert told_of(alone)[:2] == ("qualified", False)
    assert alone["batch_note"].startswith("row 7 alone: return: 1 of 6 elements differ, first at (0, 3): expected ")
    assert told_of(raises) == (
        "qualified",
        None,
        "row 7 alone: launch_error: the launch raised ValueError: too few rows",
    )
    assert case["passed"]
    assert "not batch invariant (3)\n  told[rows8-cols6] MODE=alone: row 7 alone: return:" in ran.output


def test_a_spec_can_require_it(ran: Ran) -> None:
    """What differs is a mismatch, and what cannot be told does not qualify."""
    case = case_of(ran, "required")
    same, alone, raises = case["candidates"]
    assert same["outcome"] == "qualified"
    assert (alone["outcome"], alone["evidence"]) == ("mismatch", None)
    assert alone["reason"].startswith("not batch invariant: row 7 alone: return: 1 of 6 elements differ")
    assert raises["outcome"] == "not_run"
    assert "whether it is batch invariant cannot be told: row 7 alone: launch_error" in raises["reason"]
    assert not case["passed"]


@pytest.mark.parametrize(
    ("name", "found", "reason"),
    [
        ("production_varies", False, "not batch invariant: row 7 alone: return: 1 of 6 elements differ"),
        ("production_untold", None, "whether it is batch invariant cannot be told: no output follows rows"),
        ("chosen_by_rows", False, "not batch invariant: "),
    ],
)
def test_a_fixed_launch_is_required_too(ran: Ran, name: str, *, found: bool | None, reason: str) -> None:
    """Production that adds in another order for few rows is what the check is for; candidates are compared with it."""
    case = case_of(ran, name)
    assert (case["fixed"]["outcome"], case["fixed"]["batch_invariant"]) == ("qualified", found)
    assert case["failures"][0].startswith(f"the fixed launch, of which the spec requires it: {reason}")
    assert not case["passed"]
    assert f"{name}[{case['id']}]: the fixed launch, of which the spec requires it: {reason[:20]}" in ran.output


def test_inputs_and_outputs_are_cut_wherever_their_rows_are(ran: Ran) -> None:
    """Several rows of memory a row, rows along the last axis, other dtypes and layouts, and what is no row at all."""
    case = case_of(ran, "layouts")
    assert told_of(case["fixed"]) == told_of(case["candidates"][0]) == ("qualified", True, "")


def test_an_input_that_is_changed_is_an_output_of_rows(ran: Ran) -> None:
    """Each part is restored before every launch."""
    case = case_of(ran, "changed")
    assert [told_of(one) for one in (case["fixed"], *case["candidates"])] == [("qualified", True, "")] * 3


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("one_row", "rows=1 is no batch"),
        ("pointing", "has limits that follow the batch: it points at rows"),
        ("shuffled", "permutation(1) follows the batch: it points at rows"),
        ("square", "input 'x' has the shape (8, 8) in the whole batch of 8 rows and (1, 1) with 1: no single axis"),
        ("other_outputs", "the whole batch gives return[0], return[1], "),
    ],
)
def test_what_cannot_be_told_is_null_with_the_reason(ran: Ran, name: str, note: str) -> None:
    """And passes, since nothing was required."""
    case = case_of(ran, name)
    for record in (case["fixed"], *case["candidates"]):
        assert told_of(record)[:2] == ("qualified", None)
        assert note in record["batch_note"]
    assert case["passed"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"batch_axis": "row"}, "batch_axis='row' must be a case axis that is a whole number of rows"),
        ({"batch_axis": "dtype"}, "batch_axis='dtype' must be a case axis that is a whole number of rows"),
        ({"batch_axis": ["rows"]}, "batch_axis=['rows'] must be a case axis"),
        ({"batch_invariant": True}, "batch_invariant=True needs batch_axis="),
        ({"batch_axis": "rows", "batch_invariant": 1}, "batch_invariant=1 must be True or False"),
    ],
)
def test_wrong_declarations(options: dict[str, Any], told: str) -> None:
    """Each is one message with the value seen."""

    @kernel_spec(candidates=[Config(A=1)], cases=[Case(rows=8, dtype="float32")], **options)
    def wrong(case: Any, seeded: Any) -> Any:
        return lambda config: (case, seeded, config)

    assert told in (wrong.error or "")


@given(
    rows=st.integers(2, 12),
    each=st.integers(1, 3),
    before=st.lists(st.integers(1, 3), max_size=2),
    after=st.lists(st.integers(1, 3), max_size=2),
)
def test_a_part_is_cut_where_its_rows_lie(rows: int, each: int, before: list[int], after: list[int]) -> None:
    """Whichever axis follows the rows, and however many elements of it belong to a row."""
    whole = torch.arange(rows * each).view(*[1] * len(before), -1, *[1] * len(after))
    whole = whole.expand(*before, rows * each, *after)
    for part in parts_of(rows):
        shape = (*before, part.size * each, *after)
        place = part.along(whole.shape, shape)
        assert place is not None
        cut = whole.narrow(*place)
        assert cut.shape == shape
        assert set(cut.unique().tolist()) == set(range(part.start * each, (part.start + part.size) * each))
    assert Part(rows, 0, 1).along((rows,), (1, 1)) is None
