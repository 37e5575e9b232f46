"""What operations that move, join, cut and overwrite entries do to abstract values."""

import math
from dataclasses import replace
from typing import Any, Final

from foxhunt.audit import domain
from foxhunt.audit.arithmetic import larger, smaller
from foxhunt.audit.calls import TABLE, Call, meaning_of
from foxhunt.audit.domain import TOP, Part, Value

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


@meaning_of(*_SHAPE_KEEPING)
def _copy(call: Call) -> Value:
    return call.first


@meaning_of("view", "_unsafe_view", "reshape", "expand")
def _view(call: Call) -> Value:
    same = tuple(call.arguments.get("size", ())) == call.shapes.get("self")
    value = call.first if same else call.first.plain()
    return replace(value, extreme=call.first.extreme) if call.name == "expand" else value


@meaning_of("amax", "amin", "max", "min")
def _extreme(call: Call) -> Value | list[Value]:
    if "other" in call.arguments:
        return larger(call) if call.name == "max" else smaller(call)
    value, kind = call.first, "max" if "max" in call.name else "min"
    kept = call.name in ("max", "min") and "dim" not in call.arguments
    kept = kept or bool(call.arguments.get("keepdim")) or call.arguments.get("dim") == []
    root = value.affine.root if value.affine and (value.affine.scale, value.affine.shift) == (1.0, 0.0) else None
    return replace(value.plain(), extreme=(kind, root) if kept and root is not None else None)


@meaning_of("cat")
def _cat(call: Call) -> Value:
    parts, start = [], 0
    dim = int(call.arguments.get("dim", 0))
    lengths = call.arguments["_lengths"]
    for value, length in zip(call.values("tensors"), lengths, strict=True):
        parts.append(Part(dim, start, start + length, value.plain()))
        start += length
    return replace(domain.join(call.values("tensors")).plain(), parts=tuple(parts))


@meaning_of("slice", "narrow")
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


@meaning_of("split", "split_with_sizes")
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


@meaning_of("where")
def _where(call: Call) -> Value:
    return domain.join([call.value("self").plain(), call.value("other").plain()])


@meaning_of("masked_fill", "index_fill", "constant_pad_nd", "index_put", "masked_scatter", "scatter", "copy", "fill")
def _overwrite(call: Call) -> Value:
    written = call.value("value", 0.0)
    for name in ("src", "source", "values"):
        if isinstance(call.arguments.get(name), Value):
            written = call.value(name)
    return written if call.name in ("copy", "fill") else domain.join([call.first.plain(), written.plain()])


@meaning_of(
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_attention_math", "scaled_dot_product_attention"
)
def _attention(call: Call) -> list[Value]:
    return [call.value("value").plain()]


@meaning_of("full", "full_like", "new_full", "scalar_tensor")
def _full(call: Call) -> Value:
    return domain.constant(call.number("fill_value", call.number("s", math.nan)))


@meaning_of("arange")
def _arange(call: Call) -> Value:
    return Value(call.number("start", 0.0)) if call.number("step", 1.0) > 0 else TOP
