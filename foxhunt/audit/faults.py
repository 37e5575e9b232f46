"""Faults as edits of one statement: what stands in a tensor's place, and sums and sizes that are no longer right."""

import ast
from collections.abc import Callable, Sequence
from typing import Final

_HAND_WRITTEN: Final = """
class Planted(__import__("torch").autograd.Function):
    @staticmethod
    def forward(x):
        return {forward}
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward({saved})
    @staticmethod
    def backward(ctx, grad):
        return {backward}
"""
"""A custom autograd function of one tensor, to be written before the statement that applies it."""

WRAPPERS: Final[dict[str, str]] = {
    "mask": "({h} * ({h} > 0))",
    "relu": "{h}.relu()",
    "clamp": "{h}.clamp(min=1e-6)",
    "logarithm": "({h} + 1e-3).log()",
    "square root": "({h} + 1e-5).sqrt()",
    "power": "({h} ** 0.5)",
    "sum normalisation": "({h} / ({h}.sum(-1, keepdim=True) + 1e-6))",
    "unsigned cast": "({h} * 16).byte().to({h}.dtype)",
    "zero test": "({h} * ({h} != 0))",
}
"""Expressions that take the place of T where a consumer reads it."""

_APPLIED: Final = "Planted.apply({h})"
_TANH: Final = {"forward": "x + x.tanh()", "saved": "inputs[0]"}

HAND_WRITTEN: Final[dict[str, str]] = {
    "dropped residual": _HAND_WRITTEN.format(**_TANH, backward="grad * (1 - ctx.saved_tensors[0].tanh().square())"),
    "sign-gated backward": _HAND_WRITTEN.format(
        forward="x.clone()", saved="output", backward="grad * (ctx.saved_tensors[0] > 0)"
    ),
}
"""Functions whose backward by hand is wrong: x + tanh(x) forgets a summand, the identity has a ReLU's gradient."""

SOUND: Final = _HAND_WRITTEN.format(**_TANH, backward="grad + grad * (1 - ctx.saved_tensors[0].tanh().square())")
"""A hand-written function that is right: planting it must report nothing."""

Edit = Callable[[ast.stmt], ast.stmt | list[ast.stmt] | None]
"""Changes a statement, or puts others before it; None where there is nothing to change."""


class _Replace(ast.NodeTransformer):
    """Puts an expression in the place of every use of some names."""

    def __init__(self, names: Sequence[str], template: str) -> None:
        self.names, self.template, self.count = names, template, 0

    def visit_Name(self, node: ast.Name) -> ast.expr:  # the name that ast calls
        if node.id not in self.names or not isinstance(node.ctx, ast.Load):
            return node
        self.count += 1
        new = ast.parse(self.template.format(h=node.id), mode="eval").body
        for part in ast.walk(new):
            ast.copy_location(part, node)
        return new


def apply_by_hand(names: Sequence[str], text: str) -> Edit:
    """Apply a custom function to T, written on the very line."""

    def edit(node: ast.stmt) -> list[ast.stmt] | None:
        applied = wrap(names, _APPLIED)(node)
        if not isinstance(applied, ast.stmt):
            return None
        (written,) = ast.parse(text).body
        for part in ast.walk(written):
            if hasattr(part, "lineno"):
                ast.copy_location(part, node)
        return [written, applied]

    return edit


def wrap(names: Sequence[str], template: str) -> Edit:
    def edit(node: ast.stmt) -> ast.stmt | None:
        if isinstance(getattr(node, "body", None), list):
            return None
        replacer = _Replace(names, template)
        new = replacer.visit(node)
        return new if replacer.count and isinstance(new, ast.stmt) else None

    return edit


def unscale(names: Sequence[str]) -> Edit:
    """Multiply what T is concatenated with by 30."""

    def edit(node: ast.stmt) -> ast.stmt | None:
        for call in ast.walk(node):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "cat"):
                continue
            parts = call.args[0] if call.args else None
            if isinstance(parts, ast.List | ast.Tuple) and any(_is(part, names) for part in parts.elts):
                parts.elts = [part if _is(part, names) else _scaled(part) for part in parts.elts]
                return node
        return None

    return edit


def unmatch(node: ast.stmt) -> ast.stmt | None:
    """Multiply what is read beside T by 30."""
    if not isinstance(node, ast.Assign):
        return None
    node.value = _scaled(node.value)
    return node


def _is(node: ast.expr, names: Sequence[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _scaled(node: ast.expr) -> ast.expr:
    return ast.copy_location(ast.BinOp(node, ast.Mult(), ast.Constant(30.0)), node)


def drop(node: ast.stmt) -> ast.stmt | None:
    """Drop the last summand of a sum."""
    if isinstance(getattr(node, "body", None), list):
        return None
    for parent in ast.walk(node):
        for name, child in ast.iter_fields(parent):
            if isinstance(child, ast.BinOp) and isinstance(child.op, ast.Add):
                setattr(parent, name, child.left)
                return node
            if isinstance(child, list):
                for index, item in enumerate(child):
                    if isinstance(item, ast.BinOp) and isinstance(item.op, ast.Add):
                        child[index] = item.left
                        return node
    return None
