"""When an operation is a hazard: a severity from abstract values, a measurement from concrete ones.

Severity is 0 (cannot happen), 1 (only at the edge of the range) or 2 (inside the range). A hazard is differential:
severe as T becomes, not severe as it was assumed.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from foxhunt.audit.domain import Value
from foxhunt.audit.transfer import Call

NEAR_ZERO: Final = 0.05
"""A threshold this close to zero is meant as zero."""

Severity = Callable[[Call], int]
Measure = Callable[[dict[str, Any], Any], float]


@dataclass(frozen=True)
class Hazard:
    """Where a rule looks: the operand it is about, how severe a call is, and what a run shows.

    `margin` is how much more the measurement must be under the new range to be a witness.
    """

    rule: str
    operand: str
    severity: Severity
    measure: Measure
    margin: float = 0.02


TABLE: Final[dict[str, list[Hazard]]] = {}


def _register(names: str, hazard: Hazard) -> None:
    for name in names.split():
        TABLE.setdefault(name, []).append(hazard)


def _inside(point: float, value: Value) -> int:
    """2 where the point splits the interval, 1 at its edge (a threshold near zero counts as zero), 0 outside."""
    if abs(point) <= NEAR_ZERO:
        point = 0.0
    if value.low < point < value.high:
        return 2
    return 1 if point in (value.low, value.high) else 0


def _share(condition: Tensor) -> float:
    return float(condition.float().mean()) if condition.numel() else 0.0


def _tensor(found: Any) -> Tensor:
    return found.detach() if isinstance(found, Tensor) else torch.tensor(found)


def _nan_share(arguments: dict[str, Any], output: Any) -> float:
    """Share of undefined results that undefined inputs do not explain."""
    result = output[0] if isinstance(output, tuple | list) else output
    if not isinstance(result, Tensor) or not result.is_floating_point():
        return 0.0
    before = max((_share(torch.isnan(item)) for item in _floats(arguments.values())), default=0.0)
    return max(_share(torch.isnan(result)) - before, 0.0)


def _floats(values: Iterable[Any]) -> list[Tensor]:
    return [item.detach() for item in values if isinstance(item, Tensor) and item.is_floating_point()]


def _below(name: str, bound: float = 0.0) -> Measure:
    return lambda arguments, _output: _share(_tensor(arguments[name]) < bound)


def _negative(name: str) -> Severity:
    return lambda call: 2 if call.value(name).low < 0 else 0


# --- domain: (operations, operand, lowest value allowed, highest value allowed) -----------------------------------
_DOMAINS: Final = (
    ("log log2 log10", "self", 0.0, math.inf),
    ("sqrt", "self", 0.0, math.inf),
    ("rsqrt", "self", 0.0, math.inf),
    ("log1p", "self", -1.0, math.inf),
    ("acosh", "self", 1.0, math.inf),
    ("acos asin atanh erfinv", "self", -1.0, 1.0),
    ("logit", "self", 0.0, 1.0),
    ("lgamma digamma special_entr", "self", 0.0, math.inf),
    ("xlogy special_xlog1py", "other", 0.0, math.inf),
)


def _domain(operand: str, low: float, high: float) -> Severity:
    def severity(call: Call) -> int:
        value = call.value(operand)
        if value.low < low or value.high > high:
            return 2
        return 1 if low in (value.low, value.high) else 0

    return severity


def _outside(operand: str, low: float, high: float) -> Measure:
    def measure(arguments: dict[str, Any], _output: Any) -> float:
        found = _tensor(arguments[operand])
        return _share((found < low) | (found > high))

    return measure


for _names, _operand, _low, _high in _DOMAINS:
    _register(_names, Hazard("domain", _operand, _domain(_operand, _low, _high), _outside(_operand, _low, _high), 0.0))


def _power(call: Call) -> int:
    base, exponent = call.value("self"), call.value("exponent")
    if exponent.constant is not None and exponent.constant == int(exponent.constant):
        return _inside(0.0, base) if exponent.constant < 0 and exponent.constant % 2 else 0
    return 2 if base.low < 0 else 0


_register("pow", Hazard("domain", "self", _power, _nan_share, 0.0))

# --- division -----------------------------------------------------------------------------------------------------
for _names, _operand in (("div true_divide", "other"), ("reciprocal", "self")):
    _register(
        _names,
        Hazard("divisor-sign", _operand, lambda call, name=_operand: _inside(0.0, call.value(name)), _below(_operand)),  # type: ignore[misc]  # lambda keeps its own operand
    )


# --- masks and zero tests -----------------------------------------------------------------------------------------
def _near(call: Call, name: str = "other") -> float | None:
    """The number that a comparison compares with, when it is meant as zero."""
    point = call.value(name).constant
    return point if point is not None and abs(point) <= NEAR_ZERO else None


def _sign_test(call: Call) -> int:
    return 0 if (point := _near(call)) is None else _inside(point, call.value("self"))


def _decided(call: Call) -> int:
    point = _near(call)
    return 0 if point is None or _inside(point, call.value("self")) == 2 else 2


def _one_sided(arguments: dict[str, Any], _output: Any) -> float:
    found = _tensor(arguments["self"])
    return 1.0 if bool((found >= 0).all()) or bool((found <= 0).all()) else 0.0


_register("gt ge lt le", Hazard("sign-mask", "self", _sign_test, _below("self"), 0.05))
_register("gt ge lt le", Hazard("decided", "self", _decided, _one_sided))


def _zeros_lost(name: str) -> Measure:
    return lambda arguments, _output: 1.0 - _share(_tensor(arguments[name]) == 0)


_register("eq ne", Hazard("zero-test", "self", _sign_test, _zeros_lost("self")))
_register(
    "nonzero count_nonzero to_sparse _to_sparse to_sparse_csr _to_sparse_csr logical_not",
    Hazard("zero-test", "self", lambda call: _inside(0.0, call.value("self")), _zeros_lost("self")),
)


# --- clamps -------------------------------------------------------------------------------------------------------
def _clamp_at(name: str, default: float) -> Severity:
    def severity(call: Call) -> int:
        point = call.value(name, default).constant
        if point is None or point < -NEAR_ZERO:
            return 0
        value = call.first
        return 2 if value.low < min(point, 0.0) else 1 if value.low < point else 0

    return severity


_register("relu relu6 rrelu", Hazard("clamp", "self", _clamp_at("_none", 0.0), _below("self"), 0.05))
_register("clamp clamp_min", Hazard("clamp", "self", _clamp_at("min", -math.inf), _below("self"), 0.05))
_register("hardtanh", Hazard("clamp", "self", _clamp_at("min_val", -1.0), _below("self"), 0.05))
_register("threshold", Hazard("clamp", "self", _clamp_at("threshold", 0.0), _below("self"), 0.05))
_register("maximum fmax", Hazard("clamp", "self", _clamp_at("other", math.nan), _below("self"), 0.05))
_register("maximum fmax", Hazard("clamp", "other", _clamp_at("self", math.nan), _below("other"), 0.05))

# --- explicit calls of derivatives that gate by a result's sign ---------------------------------------------------
_register(
    "threshold_backward",
    Hazard("sign-gate", "self", lambda call: _inside(call.number("threshold", 0.0), call.first), _below("self"), 0.05),
)
_register(
    "leaky_relu_backward elu_backward",
    Hazard(
        "sign-gate",
        "self",
        lambda call: _inside(0.0, call.first) if call.number("self_is_result", call.number("is_result", 0.0)) else 0,
        _below("self"),
        0.05,
    ),
)


# --- maxima over zero fill ----------------------------------------------------------------------------------------
def _fill(call: Call) -> int:
    return 2 if call.first.filled and call.first.low < 0 else 0


_register(
    "amax max argmax topk max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d sort cummax",
    Hazard("zero-fill", "self", _fill, _below("self"), 0.05),
)


# --- probabilities, rates, deviations -----------------------------------------------------------------------------
def _probabilities(call: Call) -> int:
    # With p given, self is only the buffer that is filled.
    return 2 if call.first.low < 0 and "p" not in call.arguments else 0


_register("multinomial poisson _standard_gamma", Hazard("probability", "self", _negative("self"), _below("self"), 0.0))
_register("bernoulli", Hazard("probability", "self", _probabilities, _below("self"), 0.0))
_register("bernoulli", Hazard("probability", "p", _negative("p"), _below("p"), 0.0))
_register("binary_cross_entropy", Hazard("probability", "self", _negative("self"), _below("self"), 0.0))
_register("normal", Hazard("deviation", "std", _negative("std"), _below("std"), 0.0))


# --- integer forms ------------------------------------------------------------------------------------------------
_UNSIGNED: Final = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)


def _cast(call: Call) -> int:
    dtype = call.arguments.get("dtype")
    if dtype in _UNSIGNED:
        return 2 if call.first.low < 0 else 0
    return _inside(0.0, call.first) if dtype == torch.bool else 0


_register("_to_copy", Hazard("unsigned-cast", "self", _cast, _below("self"), 0.0))


def _lowest_code(call: Call) -> float:
    zero_point, scale = call.number("zero_point", 0.0), call.number("scale", 1.0)
    lowest = call.number("quant_min", 0.0 if call.arguments.get("dtype") in (torch.quint8, None) else -128.0)
    return (lowest - zero_point) * scale


_register(
    "quantize_per_tensor fake_quantize_per_tensor_affine_cachemask fake_quantize_per_tensor_affine",
    Hazard("unsigned-cast", "self", lambda call: 2 if call.first.low < 0 <= _lowest_code(call) else 0, _below("self")),
)
_register("embedding index_select", Hazard("index", "index", _negative("index"), _below("index"), 0.0))
_register("embedding", Hazard("index", "indices", _negative("indices"), _below("indices"), 0.0))
_register("gather scatter", Hazard("index", "index", _negative("index"), _below("index"), 0.0))
_register(
    "index index_put",
    Hazard(
        "index",
        "indices",
        lambda call: 2 if any(value.low < 0 for value in call.values("indices")) else 0,
        lambda arguments, _output: max(
            (_share(item < 0) for item in arguments["indices"] if isinstance(item, Tensor)),
            default=0.0,
        ),
        0.0,
    ),
)


def _unsorted(arguments: dict[str, Any], _output: Any) -> float:
    return _share(_tensor(arguments["sorted_sequence"]).diff(dim=-1) < 0)


_register(
    "searchsorted",
    Hazard("sorted", "sorted_sequence", lambda call: 0 if call.first.monotone else 2, _unsorted, 0.0),
)


# --- targets out of reach -----------------------------------------------------------------------------------------
def _unreachable(fitted: str, target: str) -> Hazard:
    def severity(call: Call) -> int:
        value, goal = call.value(fitted), call.value(target)
        return 2 if value.affine and value.low >= 0 and goal.low < 0 and goal.constant is None else 0

    return Hazard("unreachable", fitted, severity, lambda arguments, _output: _unreached(arguments, fitted, target))


def _unreached(arguments: dict[str, Any], fitted: str, target: str) -> float:
    if not isinstance(arguments[fitted], Tensor) or not isinstance(arguments[target], Tensor):
        return 0.0
    return _share(_tensor(arguments[target]) < 0) if _one_sided({"self": arguments[fitted]}, None) else 0.0


_register("mse_loss smooth_l1_loss huber_loss l1_loss", _unreachable("self", "target"))
for _hazard in (_unreachable("self", "other"), _unreachable("other", "self")):
    _register("sub", _hazard)
