"""Pairs of configs of one kernel: those expected to change bytes on a GPU, and those known not to by construction.

`CHANGING` and `KEEPING` are expectations; `benchmarks/order_bank.py` finds on a GPU what is true.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import element_kernels as elements
import row_kernels as rows
import tile_kernels as tiles
import torch
import triton
import triton.language as tl

Shape = tuple[int, ...]
Tensors = dict[str, torch.Tensor]
Config = Mapping[str, Any]


@dataclass(frozen=True)
class Inputs:
    """Tensors of a case by name: shape and dtype; floats are drawn, results start as zeros."""

    drawn: Mapping[str, tuple[Shape, torch.dtype]]
    results: Mapping[str, tuple[Shape, torch.dtype]]


@dataclass(frozen=True)
class Pair:
    """One kernel, two configs, and the workloads at which they are compared."""

    name: str
    launch: Callable[[Tensors, Shape, Config], None]
    inputs: Callable[[Shape], Inputs]
    a: Config
    b: Config
    small: Shape
    large: Shape
    note: str = field(default="", kw_only=True)


F32, BF16, F16, I32, I8 = torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.int8


def _resolved(config: Config, cols: int) -> dict[str, Any]:
    return {name: max(16, triton.next_power_of_2(cols)) if value == "cols" else value for name, value in config.items()}


def _row(name: str, a: Config, b: Config, *, whole: bool = True, dtype: torch.dtype = F32, **given: Any) -> Pair:
    """Pair up a kernel with one program a row, its block the whole row unless the configs say otherwise."""
    kernel = getattr(rows, given.pop("kernel", name))
    scalar = given.pop("scalar", True)
    result = given.pop("result", F32)
    block = {"BLOCK": "cols"} if whole else {}

    def launch(t: Tensors, shape: Shape, config: Config) -> None:
        kernel[(shape[0],)](t["x"], t["y"], t["o"], *shape, **_resolved({**block, **config}, shape[1]))

    def inputs(shape: Shape) -> Inputs:
        return Inputs(
            {"x": (shape, dtype), "y": (shape[1:], F32 if dtype.is_floating_point else dtype)},
            {"o": (shape[:1] if scalar else shape, result)},
        )

    small, large = given.pop("small", (4, 1000)), given.pop("large", (2048, 4096))
    label = given.pop("label", "")
    changed = ", ".join(f"{key} {a.get(key)}-{b.get(key)}" for key in {**a, **b} if a.get(key) != b.get(key))
    return Pair(f"{name} {label or str(dtype)[6:]} {changed}", launch, inputs, a, b, small, large, **given)


def _elements(name: str, a: Config, b: Config, **given: Any) -> Pair:
    """Pair up a kernel that computes each element on its own."""
    kernel = getattr(elements, name)
    programs = given.pop("programs", None)

    def launch(t: Tensors, shape: Shape, config: Config) -> None:
        grid = (programs or triton.cdiv(shape[0], config["BLOCK"]),)
        kernel[grid](t["x"], t["y"], t["z"], t["o"], shape[0], **config)

    def inputs(shape: Shape) -> Inputs:
        dtype = given.get("dtype", F32)
        return Inputs(dict.fromkeys("xyz", (shape, dtype)), {"o": (shape, given.get("result", dtype))})

    changed = ", ".join(f"{key} {a.get(key)}-{b.get(key)}" for key in {**a, **b} if a.get(key) != b.get(key))
    return Pair(f"{name} {changed}", launch, inputs, a, b, (1000,), (4_000_000,), note=given.get("note", ""))


def _tile(name: str, a: Config, b: Config, **given: Any) -> Pair:
    """Pair up a kernel on tiles of rows and columns."""
    kernel = getattr(tiles, name)
    grid_of = given.pop("grid")
    out_of = given.pop("out", lambda m, n: (m, n))

    def launch(t: Tensors, shape: Shape, config: Config) -> None:
        grid = grid_of(*shape, config["BLOCK_M"], config["BLOCK_N"])
        kernel[grid](t["x"], t["y"], t["o"], *shape, **config)

    def inputs(shape: Shape) -> Inputs:
        return Inputs({"x": (shape, F32), "y": (shape[1:], F32)}, {"o": (out_of(*shape), F32)})

    changed = ", ".join(f"{key} {a.get(key)}-{b.get(key)}" for key in {**a, **b} if a.get(key) != b.get(key))
    small, large = given.pop("small", (40, 100)), given.pop("large", (4096, 2048))
    return Pair(f"{name} {changed}", launch, inputs, a, b, small, large, **given)


def _matmul(label: str, a: Config, b: Config, *, dtype: torch.dtype = BF16, **given: Any) -> Pair:
    kernel = getattr(tiles, given.pop("kernel", "matmul"))
    base = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3}
    result = given.pop("result", F32)

    def launch(t: Tensors, shape: Shape, config: Config) -> None:
        options = {**base, **config}
        m, n, _k = shape
        tiles_m, tiles_n = triton.cdiv(m, options["BLOCK_M"]), triton.cdiv(n, options["BLOCK_N"])
        grid = (tiles_m, tiles_n) if kernel is tiles.outer_products else (tiles_m * tiles_n,)
        kernel[grid](t["x"], t["y"], t["o"], *shape, **options)

    def inputs(shape: Shape) -> Inputs:
        m, n, k = shape
        return Inputs({"x": ((m, k), dtype), "y": ((k, n), dtype)}, {"o": ((m, n), result)})

    changed = ", ".join(f"{key} {a.get(key)}-{b.get(key)}" for key in {**a, **b} if a.get(key) != b.get(key))
    small, large = given.pop("small", (64, 64, 96)), given.pop("large", (512, 512, 2048))
    return Pair(f"matmul {label} {changed}", launch, inputs, a, b, small, large, **given)


def _split_k(a: Config, b: Config) -> Pair:
    most = 8

    def launch(t: Tensors, shape: Shape, config: Config) -> None:
        m, n, _k = shape
        grid = (triton.cdiv(m, 64), triton.cdiv(n, 64), config["SPLIT_K"])
        tiles.split_k[grid](t["x"], t["y"], t["p"], *shape, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, **config)
        rows.sum_of_partials[(triton.cdiv(m * n, 256),)](t["p"], t["o"], config["SPLIT_K"], m * n, BLOCK=256)

    def inputs(shape: Shape) -> Inputs:
        m, n, k = shape
        return Inputs({"x": ((m, k), BF16), "y": ((k, n), BF16)}, {"p": ((most, m, n), F32), "o": ((m, n), F32)})

    name = f"split K {a['SPLIT_K']}-{b['SPLIT_K']}"
    return Pair(name, launch, inputs, a, b, (64, 64, 256), (512, 512, 4096))


def _partials(name: str, a: Config, b: Config, programs: Callable[[int, Config], int], **given: Any) -> Pair:
    """Pair up sums over rows by several programs, added up by a second kernel."""
    kernel = getattr(rows, name)

    def launch(t: Tensors, shape: Shape, config: Config) -> None:
        m, n = shape
        parts = programs(m, config)
        meta = {key: value for key, value in config.items() if key != "PROGRAMS"}
        kernel[(parts,)](t["x"], t["p"], t["o"], m, n, BLOCK=triton.next_power_of_2(n), **meta)
        rows.sum_of_partials[(triton.cdiv(n, 256),)](t["p"], t["o"], parts, n, BLOCK=256)

    def inputs(shape: Shape) -> Inputs:
        m, n = shape
        return Inputs({"x": ((m, n), F32)}, {"p": ((m, n), F32), "o": ((n,), F32)})

    changed = ", ".join(f"{key} {a[key]}-{b[key]}" for key in a)
    return Pair(f"{name} {changed}", launch, inputs, a, b, (64, 100), (4096, 1000), **given)


def _flat(name: str, a: Config, b: Config, *, dtype: torch.dtype, result: torch.dtype, **given: Any) -> Pair:
    """Pair up a kernel of atomics over all elements."""
    kernel = getattr(rows, name)

    def launch(t: Tensors, shape: Shape, config: Config) -> None:
        t["o"].zero_()
        grid = (triton.cdiv(shape[0] * shape[1], config["BLOCK"]),)
        kernel[grid](t["x"], t["y"], t["o"], *shape, **config)

    def inputs(shape: Shape) -> Inputs:
        return Inputs({"x": (shape, dtype), "y": (shape[1:], dtype)}, {"o": ((16,), result)})

    changed = ", ".join(f"{key} {a.get(key)}-{b.get(key)}" for key in {**a, **b} if a.get(key) != b.get(key))
    return Pair(f"{name} {changed}", launch, inputs, a, b, (4, 1000), (1024, 4096), **given)


def _attention(a: Config, b: Config, *, causal: bool = False, **given: Any) -> Pair:
    base = {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2}

    def launch(t: Tensors, shape: Shape, config: Config) -> None:
        options = {**base, **config}
        grid = (triton.cdiv(shape[0], options["BLOCK_M"]),)
        tiles.attention[grid](t["q"], t["k"], t["v"], t["o"], shape[0], DIM=shape[1], CAUSAL=causal, **options)

    def inputs(shape: Shape) -> Inputs:
        return Inputs(dict.fromkeys("qkv", (shape, BF16)), {"o": (shape, F32)})

    changed = ", ".join(f"{key} {a.get(key)}-{b.get(key)}" for key in {**a, **b} if a.get(key) != b.get(key))
    kind = "causal attention" if causal else "attention"
    return Pair(f"{kind} {changed}", launch, inputs, a, b, (128, 64), (4096, 64), **given)


def _warps(a: int, b: int) -> tuple[Config, Config]:
    return {"num_warps": a}, {"num_warps": b}


def _blocks(a: int, b: int, **both: Any) -> tuple[Config, Config]:
    return {"BLOCK": a, **both}, {"BLOCK": b, **both}


def _rows_grid(m: int, _n: int, block_m: int, _block_n: int) -> Shape:
    return (triton.cdiv(m, block_m),)


def _columns_grid(_m: int, n: int, _block_m: int, block_n: int) -> Shape:
    return (triton.cdiv(n, block_n),)


def _tiles_grid(m: int, n: int, block_m: int, block_n: int) -> Shape:
    return triton.cdiv(m, block_m), triton.cdiv(n, block_n)


CHANGING: tuple[Pair, ...] = (
    _row("row_sum", *_warps(4, 8)),
    _row("row_sum", *_warps(1, 4)),
    _row("row_sum", *_warps(2, 16)),
    _row("row_sum", {"BLOCK": 4096, "num_warps": 4}, {"BLOCK": 8192, "num_warps": 4}, whole=False),
    _row("row_sum_f64", *_warps(4, 8), result=torch.float64),
    _row("row_sum_f16", *_warps(4, 8)),
    _row("row_sum_looped", *_blocks(256, 512), whole=False),
    _row("row_sum_looped", *_blocks(512, 1024, num_warps=8), whole=False),
    _row("row_sum_lanes", *_blocks(256, 1024), whole=False),
    _row("row_sum_lanes", {"BLOCK": 1024, "num_warps": 4}, {"BLOCK": 1024, "num_warps": 8}, whole=False),
    _row(
        "row_sum_reversed",
        {"BLOCK": 256, "REVERSED": False},
        {"BLOCK": 256, "REVERSED": True},
        whole=False,
        small=(4, 1024),
    ),
    _row(
        "row_sum_strided", {"BLOCK": 256, "STRIDED": False}, {"BLOCK": 256, "STRIDED": True}, whole=False,
        small=(4, 1024),
    ),
    _row("row_sum_accumulators", {"BLOCK": 128, "ACCUMULATORS": 1}, {"BLOCK": 128, "ACCUMULATORS": 2}, whole=False),
    _row("row_sum_flattened", *_warps(4, 8)),
    _row("rms_norm", *_warps(4, 8), scalar=False),
    _row("rms_norm", *_warps(4, 16), scalar=False, dtype=BF16, result=BF16),
    _row("rms_norm", *_warps(1, 4), scalar=False, dtype=BF16, result=BF16),
    _row("layer_norm", *_warps(4, 8), scalar=False),
    _row("layer_norm", *_warps(2, 4), scalar=False, dtype=F16, result=F16),
    _row("layer_norm_looped", *_blocks(256, 512), whole=False, scalar=False),
    _row("layer_norm_looped", *_blocks(256, 1024, num_warps=8), whole=False, scalar=False),
    _row("welford", *_warps(4, 8)),
    _row("softmax", *_warps(4, 8), scalar=False),
    _row("softmax", *_warps(1, 2), scalar=False),
    _row(
        "softmax_looped", {"BLOCK": 256, "ONLINE": True}, {"BLOCK": 512, "ONLINE": True}, whole=False, scalar=False
    ),
    _row(
        "softmax_looped", {"BLOCK": 256, "ONLINE": True}, {"BLOCK": 256, "ONLINE": False}, whole=False, scalar=False
    ),
    _row("logsumexp", *_blocks(256, 1024), whole=False),
    _row("cross_entropy", *_warps(4, 8)),
    _row("softmax_backward", *_warps(4, 8), scalar=False),
    _row("cosine", *_warps(4, 8)),
    _row("matvec", *_blocks(256, 512), whole=False),
    _row("matvec", {"BLOCK": 512, "num_warps": 4}, {"BLOCK": 512, "num_warps": 2}, whole=False, dtype=BF16),
    _row("product", *_warps(4, 8)),
    _row("cumsum", *_warps(4, 8), scalar=False),
    _row("cumsum_looped", *_blocks(256, 512), whole=False, scalar=False),
    _row("linear_recurrence", *_warps(4, 8), scalar=False, small=(4, 500), large=(1024, 2048)),
    _partials(
        "partial_sums",
        {"PROGRAMS": 16},
        {"PROGRAMS": 32},
        lambda _rows, config: config["PROGRAMS"],
        note="only the grid follows the parameter",
    ),
    _partials(
        "partial_sums_chunked", {"ROWS": 8}, {"ROWS": 16}, lambda m, config: triton.cdiv(m, config["ROWS"]),
        note="loop bounds from program_id",
    ),
    _tile(
        "column_sum", {"BLOCK_M": 32, "BLOCK_N": 64}, {"BLOCK_M": 64, "BLOCK_N": 64}, grid=_columns_grid,
        out=lambda _m, n: (n,),
    ),
    _tile(
        "column_sum", {"BLOCK_M": 64, "BLOCK_N": 32, "num_warps": 4}, {"BLOCK_M": 64, "BLOCK_N": 32, "num_warps": 8},
        grid=_columns_grid, out=lambda _m, n: (n,),
    ),
    _tile(
        "tile_row_sum", {"BLOCK_M": 16, "BLOCK_N": 64}, {"BLOCK_M": 16, "BLOCK_N": 128}, grid=_rows_grid,
        out=lambda m, _n: (m,),
    ),
    _tile(
        "tile_squares", {"BLOCK_M": 8, "BLOCK_N": 128, "num_warps": 4}, {"BLOCK_M": 8, "BLOCK_N": 128, "num_warps": 8},
        grid=_rows_grid, out=lambda m, _n: (triton.cdiv(m, 8),), large=(4096, 128),
    ),
    _tile(
        "two_products", {"BLOCK_M": 16, "BLOCK_N": 4}, {"BLOCK_M": 16, "BLOCK_N": 64}, grid=_tiles_grid,
    ),
    _split_k({"SPLIT_K": 1}, {"SPLIT_K": 4}),
    _split_k({"SPLIT_K": 2}, {"SPLIT_K": 8}),
    _matmul("f32", {"PRECISION": "ieee"}, {"PRECISION": "tf32"}, dtype=F32),
    _matmul("f32", {"PRECISION": "tf32"}, {"PRECISION": "tf32x3"}, dtype=F32),
    _matmul("f16", {"ACC": tl.float32}, {"ACC": tl.float16}, dtype=F16),
    _matmul("unchained", {"CHAINED": False, "BLOCK_K": 32}, {"CHAINED": False, "BLOCK_K": 64}),
    _attention({"BLOCK_N": 32}, {"BLOCK_N": 64}),
    _attention({"BLOCK_N": 64}, {"BLOCK_N": 128}, causal=True),
    _elements("axpy", {"BLOCK": 512, "enable_fp_fusion": True}, {"BLOCK": 512, "enable_fp_fusion": False}),
    _elements("rope", {"BLOCK": 512, "enable_fp_fusion": True}, {"BLOCK": 512, "enable_fp_fusion": False}),
    _elements("polynomial", {"BLOCK": 512, "enable_fp_fusion": True}, {"BLOCK": 512, "enable_fp_fusion": False}),
    _elements("guarded", {"BLOCK": 512, "EVEN": True}, {"BLOCK": 512, "EVEN": False}, note="a select in between"),
    _elements("unrolled_sum", {"BLOCK": 256, "GROUPS": 1}, {"BLOCK": 256, "GROUPS": 2}, note="every other part first"),
    _elements("unrolled_sum", {"BLOCK": 256, "GROUPS": 1}, {"BLOCK": 256, "GROUPS": 4}),
    _elements("masked_tail", {"BLOCK": 64}, {"BLOCK": 512}, note="other elements are in the tail"),
    _flat("atomic_sum", *_blocks(512, 1024), dtype=F32, result=F32, note="unknown: atomics"),
)  # fmt: skip

_SOFTMAX = {"BLOCK": 256, "ONLINE": True}

KEEPING: tuple[Pair, ...] = (
    _elements("unrolled_sum", {"BLOCK": 128, "GROUPS": 2}, {"BLOCK": 1024, "GROUPS": 2}),
    _elements("by_halves", {"BLOCK": 128}, {"BLOCK": 512, "num_warps": 8}),
    _row("row_sum_looped", {"BLOCK": 512, "num_stages": 1}, {"BLOCK": 512, "num_stages": 4}, whole=False),
    _row("row_sum_lanes", {"BLOCK": 512, "num_stages": 1}, {"BLOCK": 512, "num_stages": 3}, whole=False),
    _row("layer_norm_looped", {"BLOCK": 512, "num_stages": 2}, {"BLOCK": 512, "num_stages": 4}, whole=False,
         scalar=False),
    _row("softmax_looped", {**_SOFTMAX, "num_stages": 1}, {**_SOFTMAX, "num_stages": 3}, whole=False, scalar=False),
    _row("logsumexp", {"BLOCK": 512, "num_stages": 1}, {"BLOCK": 512, "num_stages": 3}, whole=False),
    _row("logsumexp_scaled", {"BLOCK": 512, "num_stages": 1}, {"BLOCK": 512, "num_stages": 3}, whole=False),
    _row("matvec", {"BLOCK": 512, "num_stages": 1}, {"BLOCK": 512, "num_stages": 4}, whole=False),
    _row("rms_norm", {"num_warps": 4, "maxnreg": 64}, {"num_warps": 4, "maxnreg": 128}, scalar=False),
    _row("softmax", {"num_warps": 4, "num_stages": 1}, {"num_warps": 4, "num_stages": 3}, scalar=False),
    _row("row_max", *_warps(4, 8)),
    _row("row_max", *_warps(1, 4)),
    _row("row_max_looped", *_blocks(256, 1024), whole=False),
    _row("quantize_rows", *_warps(4, 8), scalar=False),
    _row("int_sum", *_warps(4, 8), dtype=I32, result=I32),
    _row("int_sum", *_warps(1, 16), dtype=I32, result=I32),
    _row("int_sum_looped", *_blocks(256, 1024), whole=False, dtype=I32, result=I32),
    _row("int_sum_lanes", *_blocks(256, 1024), whole=False, dtype=I32, result=I32),
    _row("int_xor", *_warps(4, 8), dtype=I32, result=I32),
    _row("int_range", *_warps(4, 8), dtype=I32, result=I32),
    _row("int_cumsum", *_warps(4, 8), scalar=False, dtype=I32, result=I32),
    _row("count_positive", *_blocks(256, 1024), whole=False),
    _row("row_grouped_sum", *_warps(1, 2), small=(4, 1024)),
    _flat("int_count", *_blocks(256, 1024), dtype=I32, result=I32),
    _tile("transpose", {"BLOCK_M": 32, "BLOCK_N": 32}, {"BLOCK_M": 64, "BLOCK_N": 16}, grid=_tiles_grid,
          out=lambda m, n: (n, m)),
    _tile("transpose", {"BLOCK_M": 32, "BLOCK_N": 32, "num_warps": 4}, {"BLOCK_M": 32, "BLOCK_N": 32, "num_warps": 8},
          grid=_tiles_grid, out=lambda m, n: (n, m)),
    _tile("bias_gelu", {"BLOCK_M": 16, "BLOCK_N": 64}, {"BLOCK_M": 64, "BLOCK_N": 128}, grid=_tiles_grid),
    _tile("outer_affine", {"BLOCK_M": 16, "BLOCK_N": 64}, {"BLOCK_M": 32, "BLOCK_N": 32}, grid=_tiles_grid),
    _tile("tile_row_sum", {"BLOCK_M": 16, "BLOCK_N": 64, "num_stages": 1},
          {"BLOCK_M": 16, "BLOCK_N": 64, "num_stages": 3}, grid=_rows_grid, out=lambda m, _n: (m,)),
    _matmul("bf16", {"num_stages": 2}, {"num_stages": 4}),
    _matmul("f32 tf32", {"num_stages": 1}, {"num_stages": 4}, dtype=F32),
    _matmul("f32 ieee", {"PRECISION": "ieee", "num_stages": 1}, {"PRECISION": "ieee", "num_stages": 3}, dtype=F32),
    _matmul("bf16", {"GROUP": 1}, {"GROUP": 8}),
    _matmul("bf16", {"ROW_FIRST": True}, {"ROW_FIRST": False}),
    _matmul("bf16", {"BLOCK_M": 64}, {"BLOCK_M": 128}),
    _matmul("bf16", {"BLOCK_N": 64}, {"BLOCK_N": 128}),
    _matmul("f32 ieee", {"PRECISION": "ieee", "BLOCK_M": 32}, {"PRECISION": "ieee", "BLOCK_M": 64}, dtype=F32),
    _matmul("i8", {"BLOCK_K": 32, "ACC": tl.int32}, {"BLOCK_K": 64, "ACC": tl.int32}, dtype=I8, result=I32),
    _attention({"num_stages": 1}, {"num_stages": 3}),
    _attention({"num_stages": 1}, {"num_stages": 2}, causal=True),
    _elements("copy", *_blocks(128, 1024)),
    _elements("cast", *_blocks(256, 1024), result=BF16),
    _elements("add", *_blocks(128, 2048)),
    _elements("axpy", *_blocks(128, 1024)),
    _elements("axpy", {"BLOCK": 1024, "num_warps": 1}, {"BLOCK": 1024, "num_warps": 8}),
    _elements("axpy_bf16", *_blocks(256, 1024), dtype=BF16),
    _elements("rope", *_blocks(128, 512)),
    _elements("product_kept", *_blocks(128, 4096)),
    _elements("polynomial", *_blocks(128, 4096)),
    _elements("swiglu", *_blocks(128, 1024)),
    _elements("swiglu", {"BLOCK": 1024, "num_warps": 2}, {"BLOCK": 1024, "num_warps": 8}, dtype=F32),
    _elements("gelu_tanh", *_blocks(128, 1024)),
    _elements("relu_clip", *_blocks(128, 1024)),
    _elements("exp_log", *_blocks(128, 1024)),
    _elements("dropout", *_blocks(128, 1024)),
    _elements("momentum", *_blocks(128, 1024)),
    _elements("strided_grid", *_blocks(128, 1024), programs=64),
    _elements("gather", *_blocks(128, 1024)),
    _elements("masked_fill", *_blocks(128, 1024)),
    _elements("quantize", *_blocks(128, 1024)),
    _elements("interleave", *_blocks(128, 512)),
    _elements("copy", {"BLOCK": 512, "enable_fp_fusion": True}, {"BLOCK": 512, "enable_fp_fusion": False}),
)  # fmt: skip

UNDECIDED: tuple[Pair, ...] = (
    _matmul(
        "outer products", {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16}, {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 32},
        dtype=F32, kernel="outer_products", large=(256, 256, 1024),
    ),
    _matmul("bf16", {"BLOCK_K": 32}, {"BLOCK_K": 64}, note="chained over K, step by step of the instruction"),
    _matmul("bf16", {"num_warps": 4}, {"num_warps": 8}),
    _matmul("unchained", {"CHAINED": False, "num_warps": 4}, {"CHAINED": False, "num_warps": 8}),
    _matmul("unchained", {"CHAINED": False, "BLOCK_M": 64}, {"CHAINED": False, "BLOCK_M": 128}),
    _attention({"num_warps": 4}, {"num_warps": 8}),
    _attention({"BLOCK_M": 64}, {"BLOCK_M": 128}),
    _row("row_sum_looped", {"BLOCK": 128, "num_warps": 4}, {"BLOCK": 128, "num_warps": 8}, whole=False),
    _row("row_grouped_sum", {"num_warps": 2}, {"num_warps": 8}, small=(4, 1024)),
    _matmul("bf16", {"BLOCK_M": 16}, {"BLOCK_M": 64}, note="another family of instructions"),
    _matmul("f32 ieee", {"PRECISION": "ieee", "BLOCK_K": 16}, {"PRECISION": "ieee", "BLOCK_K": 32}, dtype=F32),
)  # fmt: skip
