"""What entry-by-entry operations, reductions and products do to abstract values."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from foxhunt.audit import domain
from foxhunt.audit.calls import TABLE, Call, meaning_of
from foxhunt.audit.domain import NONNEGATIVE, TOP, UNIT, Value
from foxhunt.audit.ranges import TINY


def _safe(function: Callable[[float], float], below: float, above: float = math.inf) -> Callable[[float], float]:
    """`function` with its limits: `below` where it is not defined on the left, `above` where it overflows."""

    def limited(number: float) -> float:
        try:
            return function(number)
        except ValueError:
            return below
        except OverflowError:
            return above

    return limited


def _softplus(number: float) -> float:
    return number if number > 30 else math.log1p(math.exp(number))


_MONOTONE: Final[dict[str, Callable[[float], float]]] = {
    "exp": lambda x: max(_safe(math.exp, 0.0)(x), TINY),
    "exp2": lambda x: max(_safe(lambda y: 2.0**y, 0.0)(x), TINY),
    "expm1": _safe(math.expm1, -1.0),
    "log": _safe(math.log, -math.inf),
    "log2": _safe(math.log2, -math.inf),
    "log10": _safe(math.log10, -math.inf),
    "log1p": _safe(math.log1p, -math.inf),
    "sqrt": _safe(math.sqrt, 0.0),
    "sigmoid": lambda x: min(max(1 / (1 + _safe(math.exp, 0.0)(-x)) if x != -math.inf else 0.0, TINY), 1.0),
    "tanh": math.tanh,
    "erf": math.erf,
    "atan": math.atan,
    "softplus": lambda x: max(_softplus(x), TINY),
    "relu": lambda x: max(x, 0.0),
    "relu6": lambda x: min(max(x, 0.0), 6.0),
    "floor": lambda x: x if math.isinf(x) else float(math.floor(x)),
    "ceil": lambda x: x if math.isinf(x) else float(math.ceil(x)),
    "trunc": lambda x: x if math.isinf(x) else float(math.trunc(x)),
    "round": lambda x: x if math.isinf(x) else float(round(x)),
    "hardsigmoid": lambda x: min(max(x / 6 + 0.5, 0.0), 1.0),
    "sign": lambda x: float((x > 0) - (x < 0)),
}
for _name, _function in _MONOTONE.items():
    TABLE[_name] = lambda call, function=_function: domain.monotone(function, call.first)  # type: ignore[misc]  # lambda keeps its own function

_FIXED: Final[dict[str, Value]] = {
    **dict.fromkeys(("_softmax", "softmax", "_safe_softmax", "rand", "rand_like", "uniform", "bernoulli"), UNIT),
    **dict.fromkeys(("gt", "ge", "lt", "le", "eq", "ne", "logical_not", "isnan", "isinf", "isfinite"), UNIT),
    **dict.fromkeys(("any", "all"), UNIT),
    **dict.fromkeys(("sin", "cos"), Value(-1.0, 1.0)),
    **dict.fromkeys(("_log_softmax", "log_sigmoid"), Value(-math.inf, 0.0)),
    **dict.fromkeys(("norm", "linalg_vector_norm", "var", "std", "square", "cosh", "count_nonzero"), NONNEGATIVE),
    **dict.fromkeys(("argmax", "argmin", "argsort", "nonzero", "multinomial", "poisson", "bincount"), NONNEGATIVE),
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros", "zero"), domain.constant(0.0)),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), domain.constant(1.0)),
}
for _name, _value in _FIXED.items():
    TABLE[_name] = lambda call, value=_value: value  # type: ignore[misc]  # lambda keeps its own value


@meaning_of("add")
def _add(call: Call) -> Value:
    return domain.add(call.value("self"), call.value("other"), call.number("alpha", 1.0))


@meaning_of("sub")
def _sub(call: Call) -> Value:
    return domain.add(call.value("self"), call.value("other"), -call.number("alpha", 1.0))


@meaning_of("rsub")
def _rsub(call: Call) -> Value:
    return domain.add(call.value("other"), call.value("self"), -call.number("alpha", 1.0))


@meaning_of("neg")
def _neg(call: Call) -> Value:
    return domain.multiply(call.first, domain.constant(-1.0))


@meaning_of("mul")
def _mul(call: Call) -> Value:
    return domain.multiply(call.value("self"), call.value("other"))


@meaning_of("div", "true_divide")
def _div(call: Call) -> Value:
    return domain.divide(call.value("self"), call.value("other"))


@meaning_of("reciprocal")
def _reciprocal(call: Call) -> Value:
    return domain.divide(domain.constant(1.0), call.first)


@meaning_of("rsqrt")
def _rsqrt(call: Call) -> Value:
    return Value(TINY, math.inf)


@meaning_of("pow")
def _pow(call: Call) -> Value:
    base, exponent = call.value("self"), call.value("exponent").constant
    if exponent is None:
        return Value(TINY, math.inf) if base.low > 0 else TOP
    if exponent % 2 == 0 or base.low >= 0:
        return NONNEGATIVE if base.low <= 0 else Value(TINY, math.inf)
    return TOP


@meaning_of("abs")
def _abs(call: Call) -> Value:
    value = call.first
    low = 0.0 if value.low <= 0 <= value.high else min(abs(value.low), abs(value.high))
    return Value(low, max(abs(value.low), abs(value.high)), filled=value.filled)


@meaning_of("clamp", "clamp_min", "clamp_max", "hardtanh")
def _clamp(call: Call) -> Value:
    bounds = (-1.0, 1.0) if call.name == "hardtanh" else (-math.inf, math.inf)
    low = call.number("min_val" if call.name == "hardtanh" else "min", bounds[0])
    high = call.number("max_val" if call.name == "hardtanh" else "max", bounds[1])
    return domain.monotone(lambda x: min(max(x, low), high), call.first)


@meaning_of("threshold")
def _threshold(call: Call) -> Value:
    cut, fill = call.number("threshold", 0.0), call.number("value", 0.0)
    return domain.join([Value(max(call.first.low, cut), max(call.first.high, cut)), domain.constant(fill)])


@meaning_of("gelu", "silu", "hardswish", "mish", "elu", "leaky_relu", "celu", "selu")
def _squash(call: Call) -> Value:
    # All keep non-negative input non-negative; none but leaky_relu goes below -1.76 (SELU's floor).
    if call.first.low >= 0:
        # SELU (and ELU, which it is dispatched as) scales what is positive.
        return NONNEGATIVE if call.name in ("elu", "selu") else Value(0.0, max(call.first.high, 0.0))
    floor = {
        "gelu": -0.171,
        "silu": -0.279,
        "hardswish": -0.375,
        "mish": -0.31,
        "elu": -1.0,
        "celu": -1.0,
        "selu": -1.76,
    }
    scaled = "alpha" in call.arguments or call.name == "leaky_relu"
    return Value(-math.inf if scaled else floor[call.name])


@meaning_of("maximum", "fmax")
def larger(call: Call) -> Value:
    left, right = call.value("self"), call.value("other")
    return Value(max(left.low, right.low), max(left.high, right.high))


@meaning_of("minimum", "fmin")
def smaller(call: Call) -> Value:
    left, right = call.value("self"), call.value("other")
    return Value(min(left.low, right.low), min(left.high, right.high))


@meaning_of("native_dropout", "dropout", "alpha_dropout")
def _dropout(call: Call) -> list[Value]:
    kept = domain.multiply(call.first.plain(), Value(1.0, math.inf))
    return [domain.join([kept, domain.constant(0.0)]), UNIT]


@meaning_of("sum", "cumsum", "nansum")
def _sum(call: Call) -> Value:
    return replace(domain.total(call.first), monotone=call.name == "cumsum" and call.first.low >= 0)


@meaning_of("prod", "cumprod")
def _prod(call: Call) -> Value:
    return NONNEGATIVE if call.first.low >= 0 else TOP


@meaning_of("mm", "bmm", "matmul", "mv", "dot")
def _matmul(call: Call) -> Value:
    tensors = [found for found in call.arguments.values() if isinstance(found, Value)]
    return domain.product(*tensors[:2])


@meaning_of("addmm", "baddbmm", "addmv")
def _addmm(call: Call) -> Value:
    tensors = [found for found in call.arguments.values() if isinstance(found, Value)]
    return domain.product(tensors[1], tensors[2], tensors[0])


@meaning_of("convolution", "linear", "_convolution", "mkldnn_linear")
def _convolution(call: Call) -> Value:
    bias = call.arguments.get("bias")
    return domain.product(call.value("input"), call.value("weight"), *([bias] if isinstance(bias, Value) else []))


@meaning_of("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_not")
def _logical(call: Call) -> Value:
    tensors = [found for found in call.arguments.values() if isinstance(found, Value)]
    return replace(UNIT, masks=frozenset().union(*(value.masks for value in tensors)))


@meaning_of("addcmul")
def _addcmul(call: Call) -> Value:
    scaled = domain.multiply(call.value("tensor1"), call.value("tensor2"))
    return domain.add(call.value("self"), scaled, call.number("value", 1.0))


@meaning_of("lerp")
def _lerp(call: Call) -> Value:
    return domain.join([call.value("self").plain(), call.value("end").plain()])
