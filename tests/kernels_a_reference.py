"""Compares kernels with float64 references; `test_kernels_a.py` runs it where triton is interpreted."""

# ruff: noqa: D103 - the names of the tests say what they check

from collections.abc import Callable

import cross_entropy
import embedding
import group_advantage
import layer_norm
import policy_ratio
import pytest
import residual_add
import rms_norm
import rope
import silu
import softmax
import swiglu
import token_log_prob
import torch
from torch.nn import functional

DTYPES = [torch.bfloat16, torch.float16, torch.float32]
# A little over one rounding to the dtype; sums in float32.
TOLERANCE = {torch.bfloat16: 8e-3, torch.float16: 1e-3, torch.float32: 2e-5}
TUNED = [swiglu._swiglu_forward, residual_add._residual_add]
SWIGLU_CONFIGS = swiglu._swiglu_forward.configs


@pytest.fixture(autouse=True)
def _one_config(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep autotuned kernels from being timed: the interpreter has no clock for it."""
    torch.manual_seed(0)
    for tuned in TUNED:
        monkeypatch.setattr(tuned, "configs", tuned.configs[:1])


def apart(rows: int, cols: int, dtype: torch.dtype, gap: int = 3) -> torch.Tensor:
    """Make rows with a gap of NaN between them, which no kernel may read into its result."""
    wide = torch.full((rows, cols + gap), float("nan"), dtype=dtype)
    wide[:, :cols] = torch.randn(rows, cols)
    return wide[:, :cols]


def assert_near(actual: torch.Tensor | None, expected: torch.Tensor | None, tolerance: float | None = None) -> None:
    """Compare with a float64 reference within one rounding of the dtype of `actual`."""
    assert actual is not None
    assert expected is not None
    limit = TOLERANCE[actual.dtype] if tolerance is None else tolerance
    torch.testing.assert_close(actual.double(), expected, rtol=limit, atol=limit, equal_nan=True)


def leaf(x: torch.Tensor) -> torch.Tensor:
    """Give `x` a gradient without losing its strides."""
    return x.detach().requires_grad_()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", [lambda d: torch.randn(2, 3, 171).to(d), lambda d: apart(3, 1030, d)])
def test_silu(dtype: torch.dtype, make: Callable[[torch.dtype], torch.Tensor]) -> None:
    x = make(dtype)
    out = silu.silu(x)
    assert out.dtype == dtype
    assert out.is_contiguous()
    assert_near(out, functional.silu(x.double()))


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (5, 1), (0, 4)])
def test_silu_of_small_shapes(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    out = silu.silu(x)
    assert out.shape == x.shape
    assert_near(out, functional.silu(x.double()))


def test_silu_of_columns_apart() -> None:
    x = torch.randn(7, 6).t()
    assert_near(silu.silu(x), functional.silu(x.double()))


@pytest.mark.parametrize("dtype", DTYPES)
def test_swiglu_and_its_gradients(dtype: torch.dtype) -> None:
    fused = torch.randn(3, 2 * 1030).to(dtype)
    gate, up = leaf(fused[:, :1030]), leaf(fused[:, 1030:])
    dout = torch.randn(3, 1030).to(dtype)
    out = swiglu.swiglu(gate, up)
    out.backward(dout)
    gate64, up64 = leaf(gate.double()), leaf(up.double())
    expected = functional.silu(gate64) * up64
    expected.backward(dout.double())
    assert_near(out, expected)
    assert_near(gate.grad, gate64.grad)
    assert_near(up.grad, up64.grad)


def test_swiglu_takes_an_expanded_gradient() -> None:
    gate, up = leaf(torch.randn(2, 2, 5)), leaf(torch.randn(2, 2, 5))
    swiglu.swiglu(gate, up).sum().backward()
    assert_near(up.grad, functional.silu(gate.double()))


def test_swiglu_prunes_blocks_wider_than_the_row() -> None:
    assert {config.kwargs["BLOCK"] for config in swiglu._fitting(SWIGLU_CONFIGS, {"cols": 300})} == {256, 512}
    assert {config.kwargs["BLOCK"] for config in swiglu._fitting(SWIGLU_CONFIGS, {"cols": 1})} == {256}


@pytest.mark.parametrize("dtype", DTYPES)
def test_rope_and_its_gradient(dtype: torch.dtype) -> None:
    tokens, heads, head_dim = 3, 5, 12
    x = leaf(torch.randn(tokens, heads + 2, head_dim).to(dtype)[:, :heads])
    angle = torch.randn(9, head_dim // 2)
    cos, sin, positions = angle.cos(), angle.sin(), torch.tensor([8, 0, 3])
    dout = torch.randn(tokens, heads, head_dim).to(dtype)
    out = rope.rope(x, cos, sin, positions)
    out.backward(dout)
    x64 = leaf(x.double())
    first, second = x64.chunk(2, dim=-1)
    c, s = cos.double()[positions][:, None], sin.double()[positions][:, None]
    expected = torch.cat([first * c - second * s, second * c + first * s], dim=-1)
    expected.backward(dout.double())
    assert_near(out, expected)
    assert_near(x.grad, x64.grad)


@pytest.mark.parametrize("position", [-1, 4])
def test_rope_shows_a_position_outside_the_table(position: int) -> None:
    table = torch.ones(4, 2)
    out = rope.rope(torch.randn(2, 1, 4), table, table, torch.tensor([0, position], dtype=torch.int32))
    assert out[1].isnan().all()
    assert not out[0].isnan().any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_embedding_and_its_gradient(dtype: torch.dtype) -> None:
    weight = leaf(apart(7, 515, dtype))
    ids = torch.tensor([[6, 0, 6], [2, 6, 0]])
    dout = torch.randn(2, 3, 515).to(dtype)
    out = embedding.embedding(ids, weight)
    out.backward(dout)
    assert torch.equal(out, weight.detach()[ids])
    expected = torch.zeros(7, 515, dtype=torch.float64).index_add_(0, ids.flatten(), dout.double().reshape(6, 515))
    assert_near(weight.grad, expected)


def test_embedding_gradient_is_summed_in_token_order() -> None:
    # In another order the ones would be lost: 1e8 + 1 is 1e8 in float32.
    dout = torch.tensor([[1e8], [1.0], [-1e8], [1.0]])
    assert embedding.embedding_backward(dout, torch.zeros(4, dtype=torch.int32), 1).item() == 1.0
    assert embedding.embedding_backward(dout[[0, 2, 1, 3]], torch.zeros(4, dtype=torch.int64), 1).item() == 2.0


@pytest.mark.parametrize("outside", [-1, 3])
def test_embedding_shows_an_id_outside_the_table(outside: int) -> None:
    weight = leaf(torch.randn(3, 4))
    out = embedding.embedding(torch.tensor([outside, 1]), weight)
    out.backward(torch.ones(2, 4))
    assert out[0].isnan().all()
    assert torch.equal(out[1], weight[1])
    assert weight.grad is not None
    assert weight.grad.sum(1).tolist() == [0.0, 4.0, 0.0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "cols"), [(3, 515), (1, 1), (34, 20), (2, 2050)])
def test_rms_norm_and_its_gradients(dtype: torch.dtype, rows: int, cols: int) -> None:
    x, weight = leaf(apart(rows, cols, dtype)), leaf(torch.randn(cols).to(dtype))
    dout = torch.randn(rows, cols).to(dtype)
    out = rms_norm.rms_norm(x, weight, eps=1e-3)
    out.backward(dout)
    x64, weight64 = leaf(x.double()), leaf(weight.double())
    expected = functional.rms_norm(x64, (cols,), weight64, 1e-3)
    expected.backward(dout.double())
    assert_near(out, expected)
    assert_near(x.grad, x64.grad)
    assert_near(weight.grad, weight64.grad)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("with_bias", [True, False])
def test_layer_norm(dtype: torch.dtype, with_bias: bool) -> None:  # noqa: FBT001 - a parameter of the test
    x, weight = apart(3, 515, dtype) + 2, torch.randn(515).to(dtype)
    bias = torch.randn(515).to(dtype) if with_bias else None
    bias64 = bias.double() if bias is not None else None
    expected = functional.layer_norm(x.double(), (515,), weight.double(), bias64)
    assert_near(layer_norm.layer_norm(x, weight, bias), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax(dtype: torch.dtype) -> None:
    x = 5 * apart(3, 515, dtype)
    x[1, 7] = -float("inf")
    assert_near(softmax.softmax(x), x.double().softmax(-1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vocabulary", [2, 515, 4099])
def test_token_log_prob(dtype: torch.dtype, vocabulary: int) -> None:
    logits = 5 * apart(3, vocabulary, dtype)
    logits[1, 1] = -float("inf")
    ids = torch.tensor([0, 0, vocabulary - 1], dtype=torch.int32)
    expected = logits.double().log_softmax(-1)[torch.arange(3), ids.long()]
    assert_near(token_log_prob.token_log_prob(logits, ids), expected, 1e-5)


def test_token_log_prob_does_not_depend_on_the_batch() -> None:
    logits, ids = 5 * torch.randn(4, 5003), torch.randint(0, 5003, (4,))
    together = token_log_prob.token_log_prob(logits, ids)
    alone = torch.cat([token_log_prob.token_log_prob(logits[i : i + 1], ids[i : i + 1]) for i in (3, 1, 0, 2)])
    assert torch.equal(together[[3, 1, 0, 2]], alone)


def test_token_log_prob_shows_an_id_outside_the_vocabulary() -> None:
    out = token_log_prob.token_log_prob(torch.randn(3, 5), torch.tensor([5, -1, 4]))
    assert out.isnan().tolist() == [True, True, False]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vocabulary", [2, 515, 5003])
def test_cross_entropy_and_its_gradient(dtype: torch.dtype, vocabulary: int) -> None:
    logits = leaf(5 * apart(4, vocabulary, dtype))
    targets = torch.tensor([vocabulary - 1, -100, 0, 1])
    dloss = torch.randn(4)
    loss = cross_entropy.cross_entropy(logits, targets)
    loss.backward(dloss)
    logits64 = leaf(logits.double())
    expected = functional.cross_entropy(logits64, targets, reduction="none")
    expected.backward(dloss.double())
    assert_near(loss, expected, 1e-5)
    assert_near(logits.grad, logits64.grad)


def test_cross_entropy_shows_a_target_outside_the_vocabulary() -> None:
    logits = leaf(torch.randn(3, 5))
    loss = cross_entropy.cross_entropy(logits, torch.tensor([5, -1, 4]))
    loss.sum().backward()
    assert loss.isnan().tolist() == [True, True, False]
    assert logits.grad is not None
    assert logits.grad.isnan().all(1).tolist() == [True, True, False]


@pytest.mark.parametrize("dtype", DTYPES)
def test_policy_ratio(dtype: torch.dtype) -> None:
    current, old, reference = (apart(3, 515, dtype) / 4 for _ in range(3))
    mask = torch.rand(3, 515) < 0.7
    current[~mask] = float("nan")
    ratio, kl = policy_ratio.policy_ratio(current, old, reference, mask)
    difference = reference.double() - current.double()
    expected_kl = (difference.exp() - 1 - difference).masked_fill(~mask, 0.0)
    assert_near(ratio, (current.double() - old.double()).exp().masked_fill(~mask, 1.0))
    assert_near(kl, expected_kl)
    ratio, kl = policy_ratio.policy_ratio(old, reference)
    assert_near(ratio, (old.double() - reference.double()).exp())
    assert kl is None


@pytest.mark.parametrize("dtype", DTYPES)
def test_group_advantage(dtype: torch.dtype) -> None:
    rewards = apart(131, 7, dtype)
    rewards[3] = 1.0
    reference = rewards.double()
    deviation = reference.std(1, keepdim=True)
    expected = (reference - reference.mean(1, keepdim=True)) / (deviation + 1e-4)
    assert_near(group_advantage.group_advantage(rewards), expected, 1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_residual_add(dtype: torch.dtype) -> None:
    hidden, residual = apart(3, 1030, dtype), torch.randn(3, 1030).to(dtype)
    expected = hidden.double() + residual.double()
    whole = hidden.as_strided((3, 1033), (1033, 1))
    assert residual_add.residual_add_(hidden, residual) is hidden
    assert_near(hidden, expected)
    assert whole[:, 1030:].isnan().all(), "bytes between the rows were written"


X = torch.randn(2, 4)
IDS = torch.tensor([0, 1])
ANGLES = torch.randn(3, 2)
WRONG: list[tuple[str, Callable[[], object], type[Exception], str]] = [
    ("silu-dtype", lambda: silu.silu(X.double()), TypeError, "silu takes .* got torch.float64"),
    ("silu-gradient", lambda: silu.silu(leaf(X)), RuntimeError, "silu has no backward"),
    ("swiglu-dtypes", lambda: swiglu.swiglu(X, X.half()), TypeError, "one dtype .* torch.float32 and torch.float16"),
    ("swiglu-shapes", lambda: swiglu.swiglu(X, X[:1]), ValueError, r"one shape .* \(2, 4\) .* \(1, 4\)"),
    ("rope-odd", lambda: rope.rope(X[:, None, :3], ANGLES, ANGLES, IDS), ValueError, r"even head_dim.* \(2, 1, 3\)"),
    ("rope-table", lambda: rope.rope(X[:, None], X, X, IDS), ValueError, r"shape \(positions, 2\), got \(2, 4\)"),
    ("rope-positions", lambda: rope.rope(X[:, None], ANGLES, ANGLES, IDS[:1]), ValueError, "2 positions"),
    ("rope-ids", lambda: rope.rope(X[:, None], ANGLES, ANGLES, X[:, 0]), TypeError, "positions of int32 or int64"),
    ("embedding-ids", lambda: embedding.embedding(X, X), TypeError, "ids of int32 or int64"),
    ("embedding-weight", lambda: embedding.embedding(IDS, X[0]), ValueError, r"shape \(vocabulary, dim\)"),
    ("embedding-dout", lambda: embedding.embedding_backward(X, IDS[:1], 3), ValueError, "takes dout of shape"),
    ("rms-weight", lambda: rms_norm.rms_norm(X, X[0, :3]), ValueError, r"\(2, 4\) on cpu and \(3,\) on cpu"),
    ("rms-eps", lambda: rms_norm.rms_norm(X, X[0], eps=0.0), ValueError, "positive eps, got 0.0"),
    ("rms-dout", lambda: rms_norm.rms_norm_dx(X[:1], X, X[0], X[:, 0]), ValueError, "takes dout of shape"),
    ("layer-bias", lambda: layer_norm.layer_norm(X, X[0], X[0, :1]), ValueError, r"\(4,\) on cpu, \(1,\) on cpu"),
    ("layer-gradient", lambda: layer_norm.layer_norm(X, leaf(X[0])), RuntimeError, "no backward"),
    ("layer-wide", lambda: layer_norm.layer_norm(W := torch.ones(1, 32769), W[0]), ValueError, "at most 32768 cols"),
    ("softmax-wide", lambda: softmax.softmax(torch.ones(1, 32769)), ValueError, "at most 32768 cols"),
    ("log-prob-ids", lambda: token_log_prob.token_log_prob(X, IDS[:1]), ValueError, "one id a row"),
    ("log-prob-empty", lambda: token_log_prob.token_log_prob(X[:, :0], IDS), ValueError, r"got \(2, 0\)"),
    ("loss-targets", lambda: cross_entropy.cross_entropy(X, X[:, 0]), TypeError, "targets of int32 or int64"),
    ("loss-shape", lambda: cross_entropy.cross_entropy(X, IDS[:1]), ValueError, "one target a row"),
    ("ratio-mask", lambda: policy_ratio.policy_ratio(X, X, None, X), TypeError, "a bool mask"),
    ("ratio-shape", lambda: policy_ratio.policy_ratio(X, X[:1]), ValueError, r"\(2, 4\) on cpu, \(1, 4\) on cpu"),
    ("group-of-one", lambda: group_advantage.group_advantage(X[:, :1]), ValueError, r"at least 2\), got \(2, 1\)"),
    ("residual-overlap", lambda: residual_add.residual_add_(X[:1].expand(2, 4), X), ValueError, "do not overlap"),
    ("residual-columns", lambda: residual_add.residual_add_(X.t(), X.t()), ValueError, "adjacent columns"),
]


@pytest.mark.parametrize(("call", "error", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_wrong_arguments_are_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("shape", [(0, 4), (2, 0)])
def test_empty_tensors_launch_nothing(shape: tuple[int, int]) -> None:
    empty, weight = torch.empty(shape), torch.ones(shape[1])
    for out in (
        swiglu.swiglu(empty, empty),
        rms_norm.rms_norm(empty, weight),
        layer_norm.layer_norm(empty, weight),
        softmax.softmax(empty),
        policy_ratio.policy_ratio(empty, empty)[0],
        residual_add.residual_add_(empty, empty),
    ):
        assert out.shape == empty.shape
