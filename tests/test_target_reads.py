"""Host code that reads, on compile targets, what is not there: nothing that follows is told as a fact."""

from pathlib import Path

import pytest
from test_targets import survey

from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.model.target_record import TargetLaunch

PRELUDE = """
import numpy, torch, triton, triton.language as tl
from pytest_kernelqual import Case, Config, kernel_spec

@triton.jit
def _copy(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)

def copied(x):
    y = torch.empty_like(x)
    _copy[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y

def spec(builder, n=512):
    return kernel_spec(kernel=_copy, candidates=[Config(num_warps=8)], cases=[Case(n=n)])(builder)
"""

READS = {
    "item": "copied(x).sum().item()",
    "to_list": "copied(x).tolist()",
    "to_numpy": "copied(x).cpu().numpy()",
    "to_array": "numpy.asarray(copied(x))",
    "by_dlpack": "numpy.from_dlpack(copied(x))",
    "by_capsule": "torch.utils.dlpack.to_dlpack(copied(x))",
    "by_storage": "copied(x).untyped_storage()[0]",
    "printed": "print(copied(x))",
    "formatted": "f'{copied(x)}'",
}


def told(folder: Path, spec: str, patch: pytest.MonkeyPatch) -> dict[str, TargetLaunch]:
    """Survey for one target, and return what is told of the fixed launch of each spec."""
    path = folder / "qual_reads.py"
    path.write_text(PRELUDE + spec)
    patch.setenv("TRITON_CACHE_DIR", str(folder / "cache"))
    patch.delenv("TRITON_INTERPRET", raising=False)
    found = survey(Settings(root_dir=str(folder), device="target:cuda:90", compile_workers=2), path)
    return {one.spec: one.launch for one in found.launched if one.launch.id == "fixed"}


def test_results_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is read of a kernel's result, and however, the launches that would follow are unknown."""
    specs = [
        f"""
@spec
def {name}(case, seeded):
    x = seeded.normal((case.n,))
    def launch():
        {expression}
        return copied(x)
    return launch
"""
        for name, expression in READS.items()
    ]
    found = told(tmp_path, "".join(specs), monkeypatch)
    assert {name: launch.outcome for name, launch in found.items()} == dict.fromkeys(READS, "unknown")
    for launch in found.values():
        assert launch.reason.endswith("reads what a kernel should have computed: it is not known without running")
    assert found["to_list"].reason.startswith("Tensor.tolist reads")
    assert found["printed"].reason.startswith("printing a tensor reads")


def test_results_hold_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The safest indices, in place of what the memory held before, also where a custom operator allocates."""
    spec = """
@torch.library.custom_op("reads::fresh", mutates_args=())
def fresh(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)

@spec
def indexed(case, seeded):
    places = seeded.randint(0, case.n, (case.n,))
    table = seeded.normal((case.n,))
    def launch():
        for make in (torch.empty_like, fresh, lambda x: torch.empty_strided((x.numel(),), (1,), dtype=x.dtype)):
            dirty = torch.full_like(places, 1 << 40)
            del dirty
            chosen = table[make(copied(places))]
        return copied(chosen)
    return launch
"""
    found = told(tmp_path, spec, monkeypatch)
    assert [(launch.outcome, launch.reason) for launch in found.values()] == [("fits", "")]


def test_reads_before_any_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs are there, and so is what torch makes of them."""
    spec = """
@spec
def lengths(case, seeded):
    ends = seeded.arange(8, name="ends")
    x = seeded.normal((case.n,))
    def launch():
        assert ends.tolist()[-1] == int(ends.max()) == ends.numpy()[-1] == 7, f"{ends}"
        return copied(x)
    return launch
"""
    found = told(tmp_path, spec, monkeypatch)
    assert [(launch.outcome, launch.reason) for launch in found.values()] == [("fits", "")]


def test_large_inputs_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that were not drawn give no constants, in a builder or before a launch; their forms do."""
    reads = {
        "direct": "x[0].item()",
        "through": "(x * 2).abs().amax().item()",
        "listed": "x.tolist()",
        "printed": "str(x)",
        "copied_over": "torch.zeros(large).copy_(x).sum().item()",
        "kept": "torch.add(x, 1, out=kept) is kept and kept.any().item()",
        "masked": "other[x > 0]",
        "by_form": "(torch.ones_like(x).sum().item(), x.new_full((2,), 3.0).tolist(), x.shape, x.data_ptr())",
        "other_filled": "(filled.sum().item(), ends.tolist(), str(other))",
    }
    specs = [
        f"""
@spec
def {name}(case, seeded):
    large = 65537
    x = seeded.normal((large,), name="x")
    filled = seeded.full((large,), 2.0)
    other = seeded.normal((large - 1,))
    ends = seeded.arange(8)
    kept = torch.zeros(large)
    def launch():
        {expression}
        return copied(x)
    return launch
"""
        for name, expression in reads.items()
    ]
    specs.append("""
@spec
def built(case, seeded):
    largest = seeded.randint(0, 8, (65537,), name="x").max().item()
    x = seeded.normal((case.n,))
    return lambda: copied(x[:largest])
""")
    found = told(tmp_path, "".join(specs), monkeypatch)
    fit = [name for name, launch in found.items() if launch.outcome == "fits"]
    assert fit == ["by_form", "other_filled"]
    refused = {name: launch for name, launch in found.items() if name not in fit}
    assert len(refused) == len(reads) - 1
    for launch in refused.values():
        assert launch.outcome == "unknown"
        assert launch.reason.endswith(
            "reads what depends on input 'x': "
            "values of inputs of more than 65536 elements are not drawn for compile targets"
        )
