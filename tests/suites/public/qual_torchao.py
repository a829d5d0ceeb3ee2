"""Specs of kernels that torchao ships: autotuned ones behind `torch.library.triton_op`."""

import torchao.prototype.blockwise_fp8_training.kernels as blockwise

from pytest_kernelqual import Case, kernel_spec

SIZES = [Case(rows=256, cols=512, interpreter={"rows": 128, "cols": 128})]


@kernel_spec(kernel=blockwise.triton_fp8_blockwise_act_quant_lhs_kernel, cases=SIZES)
def ao_quantize_activations(case, seeded):
    x = seeded.normal((case.rows, case.cols), dtype="bfloat16", name="x")
    return lambda: blockwise.triton_fp8_blockwise_act_quant_lhs(x)


@kernel_spec(kernel=blockwise.triton_fp8_blockwise_weight_quant_rhs_kernel, cases=SIZES)
def ao_quantize_weights(case, seeded):
    x = seeded.normal((case.rows, case.cols), dtype="bfloat16", name="x")
    return lambda: blockwise.triton_fp8_blockwise_weight_quant_rhs(x)


@kernel_spec(
    kernel=blockwise.triton_fp8_gemm_1x128_128x128_kernel,
    cases=[Case(m=200, n=256, k=512, interpreter={"m": 20, "n": 128, "k": 256})],
    screen="tiles change the order of a sum",
)
def ao_blockwise_gemm(case, seeded):
    a = seeded.normal((case.m, case.k), dtype="float8_e4m3fn", name="a")
    b = seeded.normal((case.k, case.n), dtype="float8_e4m3fn", layout="column_major", name="b")
    a_scales = seeded.uniform((case.m, case.k // 128), low=0.5, layout="column_major", name="a_scales")
    b_scales = seeded.uniform((case.k // 128, case.n // 128), low=0.5, layout="column_major", name="b_scales")
    return lambda: blockwise.triton_fp8_gemm_1x128_128x128(a, b, a_scales, b_scales)
