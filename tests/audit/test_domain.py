"""Abstract results cover concrete ones: every transfer is checked against the operation it stands for."""

import math

import pytest
import torch
from torch import Tensor

from foxhunt.audit import domain
from foxhunt.audit.domain import NONNEGATIVE, TOP, Affine, Value
from foxhunt.audit.transfer import TABLE, Call, apply

UNARY = (
    *("exp", "exp2", "expm1", "log1p", "sqrt", "sigmoid", "tanh", "erf", "atan", "relu", "floor", "ceil", "trunc"),
    *("round", "sign", "abs", "neg", "square", "sin", "cos", "rsqrt", "reciprocal", "detach", "clone", "sum"),
    *("cumsum", "mean", "amax", "amin"),
)
ACTIVATIONS = ("gelu", "silu", "hardswish", "mish", "elu", "selu", "leaky_relu", "relu6", "softplus")
SIDES = [(0.0, 2.0), (-1.0, 1.0), (-3.0, -1.0), (0.5, 4.0)]


def covers(value: Value, tensor: Tensor) -> bool:
    finite = tensor[torch.isfinite(tensor)].double()
    slack = 1e-6 * max(1.0, float(finite.abs().max())) if finite.numel() else 0.0
    if finite.numel() == 0:
        return True
    return value.low - slack <= float(finite.min()) and float(finite.max()) <= value.high + slack


@pytest.mark.parametrize(("low", "high"), [(0.0, 3.0), (-2.0, 2.0), (0.5, 4.0), (-3.0, -0.5), (0.0, math.inf)])
@pytest.mark.parametrize("name", UNARY)
def test_a_unary_transfer_covers_the_operation(name: str, low: float, high: float) -> None:
    x = low + (min(high, 50.0) - low) * torch.rand(4, 50, generator=torch.Generator().manual_seed(1))
    function = getattr(torch, name, None) or getattr(torch.Tensor, name)
    output = function(x, -1) if name == "cumsum" else function(x)
    assert name in TABLE
    result = apply(Call(name, {"self": Value(low, high)}, {"self": (4, 50)}))
    assert isinstance(result, Value)
    assert covers(result, output), (result, output)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("low", [-8.0, 0.0])
def test_an_activation_covers_the_operation(name: str, low: float) -> None:
    x = torch.linspace(low, 8, 2000)
    result = apply(Call(name, {"self": Value(low, 8.0)}, {"self": (2000,)}))
    assert isinstance(result, Value)
    assert covers(result, getattr(torch.nn.functional, name)(x))


@pytest.mark.parametrize("left", [*SIDES, (1.0, math.inf)])
@pytest.mark.parametrize("right", SIDES)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum"])
def test_a_binary_transfer_covers_the_operation(
    name: str, left: tuple[float, float], right: tuple[float, float]
) -> None:
    generator = torch.Generator().manual_seed(2)
    x, y = (low + (min(high, 40.0) - low) * torch.rand(500, generator=generator) for low, high in (left, right))
    result = apply(Call(name, {"self": Value(*left), "other": Value(*right)}, {}))
    assert isinstance(result, Value)
    assert covers(result, getattr(torch, name)(x, y))


def test_an_entry_less_the_minimum_of_its_tensor_is_not_negative() -> None:
    x = TOP.rooted()
    assert x.affine is not None
    least = Value(extreme=("min", x.affine.root))
    assert domain.add(x, least, -1.0) == NONNEGATIVE
    assert domain.add(x, Value(extreme=("max", x.affine.root)), -1.0) == Value(high=0.0)
    assert domain.add(x, Value(extreme=("min", x.affine.root + 10**6)), -1.0).low == -math.inf


def test_a_square_is_not_negative_whatever_its_scale() -> None:
    x = TOP.rooted()
    half = domain.multiply(x, domain.constant(0.5))
    assert domain.multiply(x, half).low == 0
    assert domain.multiply(x, domain.multiply(x, domain.constant(-1.0))).high == 0
    assert domain.multiply(x, TOP.rooted()).low == -math.inf
    shifted = domain.add(x, domain.constant(1.0))
    assert shifted.affine == Affine(x.affine.root if x.affine else -1, 1.0, 1.0)
    assert domain.multiply(x, shifted).low == -math.inf


def test_a_slice_of_a_concatenation_takes_its_own_part() -> None:
    call = Call("cat", {"tensors": [TOP, NONNEGATIVE], "dim": 1, "_lengths": [3, 2]}, {})
    joined = apply(call)
    assert isinstance(joined, Value)

    def cut(start: int, end: int) -> Value:
        result = apply(Call("slice", {"self": joined, "dim": 1, "start": start, "end": end}, {"self": (4, 5)}))
        assert isinstance(result, Value)
        return result

    assert cut(3, 5).low == 0
    assert cut(0, 3).low == -math.inf
    assert cut(2, 4).low == -math.inf


def test_zeros_over_entries_are_remembered_until_entries_mix() -> None:
    filled = apply(Call("masked_fill", {"self": TOP, "value": 0.0}, {}))
    assert isinstance(filled, Value)
    assert filled.filled
    pooled = apply(Call("mean", {"self": filled}, {}))
    assert isinstance(pooled, Value)
    product = domain.product(filled, TOP)
    assert not product.filled


def test_an_unknown_operation_says_nothing() -> None:
    assert apply(Call("frobnicate", {"self": NONNEGATIVE}, {})) == TOP
