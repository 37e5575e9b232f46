"""What every aten operation does to abstract values; an operation without an entry yields `TOP`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from foxhunt.audit import domain
from foxhunt.audit.domain import NONNEGATIVE, TOP, UNIT, Part, Value
from foxhunt.audit.ranges import TINY


@dataclass(frozen=True)
class Call:
    """One operation under one lens: its name without overload, its arguments by name, tensors replaced by values."""

    name: str
    arguments: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]

    def value(self, name: str, default: float | None = None) -> Value:
        """The argument as a value; a number becomes a constant."""
        found = self.arguments.get(name, default)
        if isinstance(found, Value):
            return found
        if isinstance(found, bool | int | float):
            return domain.constant(float(found))
        return TOP

    def values(self, name: str) -> list[Value]:
        """The tensors of a list argument."""
        found = self.arguments.get(name, ())
        return [item for item in found if isinstance(item, Value)] if isinstance(found, Sequence) else []

    def number(self, name: str, default: float) -> float:
        """A scalar argument; `default` where it is left out or a tensor of unknown value."""
        found = self.arguments.get(name, default)
        if isinstance(found, Value):
            return default if found.constant is None else found.constant
        return float(found) if isinstance(found, bool | int | float) else default

    @property
    def first(self) -> Value:
        """The operation's first tensor, whatever its name."""
        for found in self.arguments.values():
            if isinstance(found, Value):
                return found
            if isinstance(found, list | tuple) and (tensors := [item for item in found if isinstance(item, Value)]):
                return domain.join(tensors)
        return TOP


Transfer = Callable[[Call], Value | list[Value]]
TABLE: Final[dict[str, Transfer]] = {}


def _for(*names: str) -> Callable[[Transfer], Transfer]:
    def register(function: Transfer) -> Transfer:
        TABLE.update(dict.fromkeys(names, function))
        return function

    return register


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

# fmt: off
_SAME: Final = (
    "view", "_unsafe_view", "reshape", "_reshape_alias", "detach", "alias", "clone", "contiguous", "_to_copy",
    "lift_fresh", "squeeze", "unsqueeze", "expand", "permute", "transpose", "t", "slice", "select", "narrow",
    "split", "split_with_sizes", "chunk", "unbind", "unfold", "as_strided", "diagonal", "index", "index_select",
    "gather", "take", "repeat", "repeat_interleave", "flip", "roll", "masked_select", "max_pool2d_with_indices",
    "max_pool3d_with_indices", "adaptive_max_pool2d", "amax", "amin", "max", "min", "sort", "topk", "kthvalue",
    "median", "mode", "mean", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool2d", "_adaptive_avg_pool2d",
    "avg_pool1d", "upsample_nearest2d", "upsample_bilinear2d", "upsample_nearest1d", "upsample_linear1d", "cat",
    "stack", "embedding", "pixel_shuffle", "set_data", "view_as_real", "movedim", "expand_as", "squeeze_copy",
    "view_copy", "tril", "triu", "col2im", "cummax", "cummin",
)
# fmt: on
"""Operations whose results lie within the hull of their first tensor (or list)."""
for _name in _SAME:
    TABLE[_name] = lambda call: call.first.plain()

_SHAPE_KEEPING: Final = ("detach", "alias", "clone", "contiguous", "_to_copy", "lift_fresh")


@_for(*_SHAPE_KEEPING)
def _copy(call: Call) -> Value:
    return call.first


@_for("view", "_unsafe_view", "reshape", "expand")
def _view(call: Call) -> Value:
    same = tuple(call.arguments.get("size", ())) == call.shapes.get("self")
    value = call.first if same else call.first.plain()
    return replace(value, extreme=call.first.extreme) if call.name == "expand" else value


@_for("amax", "amin", "max", "min")
def _extreme(call: Call) -> Value | list[Value]:
    if "other" in call.arguments:
        return _larger(call) if call.name == "max" else _smaller(call)
    value, kind = call.first, "max" if "max" in call.name else "min"
    kept = call.name in ("max", "min") and "dim" not in call.arguments
    kept = kept or bool(call.arguments.get("keepdim")) or call.arguments.get("dim") == []
    root = value.affine.root if value.affine and (value.affine.scale, value.affine.shift) == (1.0, 0.0) else None
    return replace(value.plain(), extreme=(kind, root) if kept and root is not None else None)


@_for("cat")
def _cat(call: Call) -> Value:
    parts, start = [], 0
    dim = int(call.arguments.get("dim", 0))
    lengths = call.arguments["_lengths"]
    for value, length in zip(call.values("tensors"), lengths, strict=True):
        parts.append(Part(dim, start, start + length, value.plain()))
        start += length
    return replace(domain.join(call.values("tensors")).plain(), parts=tuple(parts))


@_for("slice", "narrow")
def _slice(call: Call) -> Value:
    value, shape = call.first, call.shapes["self"]
    dim = int(call.arguments.get("dim", 0)) % max(len(shape), 1)
    start = int(call.arguments.get("start") or 0)
    size = shape[dim] if shape else 1
    stop = (
        start + int(call.arguments["length"])
        if call.name == "narrow"
        else min(int(call.arguments.get("end") or size), size)
    )
    start = start + size if start < 0 else start
    stop = stop + size if stop < 0 else stop
    if (start, stop) == (0, size) and call.arguments.get("step", 1) == 1:
        return value
    return _pick(value, dim, start, stop, len(shape))


@_for("split", "split_with_sizes")
def _split(call: Call) -> list[Value]:
    shape = call.shapes["self"]
    dim = int(call.arguments.get("dim", 0)) % len(shape)
    sizes: Any = call.arguments.get("split_sizes", call.arguments.get("split_size"))
    if isinstance(sizes, int):
        sizes = [min(sizes, shape[dim] - start) for start in range(0, shape[dim], sizes)]
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    return [_pick(call.first, dim, start, start + size, len(shape)) for start, size in zip(starts, sizes, strict=True)]


def _pick(value: Value, dim: int, start: int, stop: int, dims: int) -> Value:
    """The pieces of a concatenation that a slice touches."""
    touched = [p.value for p in value.parts if p.dim % dims == dim and p.start < stop and start < p.stop]
    return domain.join(touched) if touched else value.plain()


@_for("add")
def _add(call: Call) -> Value:
    return domain.add(call.value("self"), call.value("other"), call.number("alpha", 1.0))


@_for("sub")
def _sub(call: Call) -> Value:
    return domain.add(call.value("self"), call.value("other"), -call.number("alpha", 1.0))


@_for("rsub")
def _rsub(call: Call) -> Value:
    return domain.add(call.value("other"), call.value("self"), -call.number("alpha", 1.0))


@_for("neg")
def _neg(call: Call) -> Value:
    return domain.multiply(call.first, domain.constant(-1.0))


@_for("mul")
def _mul(call: Call) -> Value:
    return domain.multiply(call.value("self"), call.value("other"))


@_for("div", "true_divide")
def _div(call: Call) -> Value:
    return domain.divide(call.value("self"), call.value("other"))


@_for("reciprocal")
def _reciprocal(call: Call) -> Value:
    return domain.divide(domain.constant(1.0), call.first)


@_for("rsqrt")
def _rsqrt(call: Call) -> Value:
    return Value(TINY, math.inf)


@_for("pow")
def _pow(call: Call) -> Value:
    base, exponent = call.value("self"), call.value("exponent").constant
    if exponent is None:
        return Value(TINY, math.inf) if base.low > 0 else TOP
    if exponent % 2 == 0 or base.low >= 0:
        return NONNEGATIVE if base.low <= 0 else Value(TINY, math.inf)
    return TOP


@_for("abs")
def _abs(call: Call) -> Value:
    value = call.first
    low = 0.0 if value.low <= 0 <= value.high else min(abs(value.low), abs(value.high))
    return Value(low, max(abs(value.low), abs(value.high)), filled=value.filled)


@_for("clamp", "clamp_min", "clamp_max", "hardtanh")
def _clamp(call: Call) -> Value:
    bounds = (-1.0, 1.0) if call.name == "hardtanh" else (-math.inf, math.inf)
    low = call.number("min_val" if call.name == "hardtanh" else "min", bounds[0])
    high = call.number("max_val" if call.name == "hardtanh" else "max", bounds[1])
    return domain.monotone(lambda x: min(max(x, low), high), call.first)


@_for("threshold")
def _threshold(call: Call) -> Value:
    cut, fill = call.number("threshold", 0.0), call.number("value", 0.0)
    return domain.join([Value(max(call.first.low, cut), max(call.first.high, cut)), domain.constant(fill)])


@_for("gelu", "silu", "hardswish", "mish", "elu", "leaky_relu", "celu", "selu")
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


@_for("maximum", "fmax")
def _larger(call: Call) -> Value:
    left, right = call.value("self"), call.value("other")
    return Value(max(left.low, right.low), max(left.high, right.high))


@_for("minimum", "fmin")
def _smaller(call: Call) -> Value:
    left, right = call.value("self"), call.value("other")
    return Value(min(left.low, right.low), min(left.high, right.high))


@_for("where")
def _where(call: Call) -> Value:
    return domain.join([call.value("self").plain(), call.value("other").plain()])


@_for("masked_fill", "index_fill", "constant_pad_nd", "index_put", "masked_scatter", "scatter", "copy", "fill")
def _overwrite(call: Call) -> Value:
    written = call.value("value", 0.0)
    for name in ("src", "source", "values"):
        if isinstance(call.arguments.get(name), Value):
            written = call.value(name)
    return written if call.name in ("copy", "fill") else domain.join([call.first.plain(), written.plain()])


@_for("native_dropout", "dropout", "alpha_dropout")
def _dropout(call: Call) -> list[Value]:
    kept = domain.multiply(call.first.plain(), Value(1.0, math.inf))
    return [domain.join([kept, domain.constant(0.0)]), UNIT]


@_for("sum", "cumsum", "nansum")
def _sum(call: Call) -> Value:
    return replace(domain.total(call.first), monotone=call.name == "cumsum" and call.first.low >= 0)


@_for("prod", "cumprod")
def _prod(call: Call) -> Value:
    return NONNEGATIVE if call.first.low >= 0 else TOP


@_for("mm", "bmm", "matmul", "mv", "dot")
def _matmul(call: Call) -> Value:
    tensors = [found for found in call.arguments.values() if isinstance(found, Value)]
    return domain.product(*tensors[:2])


@_for("addmm", "baddbmm", "addmv")
def _addmm(call: Call) -> Value:
    tensors = [found for found in call.arguments.values() if isinstance(found, Value)]
    return domain.product(tensors[1], tensors[2], tensors[0])


@_for("convolution", "linear", "_convolution", "mkldnn_linear")
def _convolution(call: Call) -> Value:
    bias = call.arguments.get("bias")
    return domain.product(call.value("input"), call.value("weight"), *([bias] if isinstance(bias, Value) else []))


@_for(
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_attention_math", "scaled_dot_product_attention"
)
def _attention(call: Call) -> list[Value]:
    return [call.value("value").plain()]


@_for("full", "full_like", "new_full", "scalar_tensor")
def _full(call: Call) -> Value:
    return domain.constant(call.number("fill_value", call.number("s", math.nan)))


@_for("arange")
def _arange(call: Call) -> Value:
    return Value(call.number("start", 0.0)) if call.number("step", 1.0) > 0 else TOP


@_for("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_not")
def _logical(call: Call) -> Value:
    tensors = [found for found in call.arguments.values() if isinstance(found, Value)]
    return replace(UNIT, masks=frozenset().union(*(value.masks for value in tensors)))


@_for("addcmul")
def _addcmul(call: Call) -> Value:
    scaled = domain.multiply(call.value("tensor1"), call.value("tensor2"))
    return domain.add(call.value("self"), scaled, call.number("value", 1.0))


@_for("lerp")
def _lerp(call: Call) -> Value:
    return domain.join([call.value("self").plain(), call.value("end").plain()])


def apply(call: Call) -> Value | list[Value]:
    """The abstract result (one per returned tensor) of an operation."""
    function = TABLE.get(call.name)
    return TOP if function is None else function(call)
