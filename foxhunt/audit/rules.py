"""The catalogue of rules: what each means, how to fix it. `hazards` decides when the operation rules apply."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Rule:
    """One way in which a consumer can depend on the range of T."""

    id: str
    title: str
    meaning: str
    example: str
    fix: str


def _rule(identifier: str, title: str, meaning: str, example: str, fix: str) -> tuple[str, Rule]:
    return identifier, Rule(identifier, title, meaning, example, fix)


RULES: Final[dict[str, Rule]] = dict(
    (
        _rule(
            "domain",
            "function outside its domain",
            "A logarithm, root, power or inverse function gets values for which it is not defined.",
            "torch.sqrt(h + 1e-5)",
            "Use a form that is defined for both signs (log1p(abs), softplus, a signed root), or feed it h.square() "
            "or h.abs() where the magnitude is meant.",
        ),
        _rule(
            "divisor-sign",
            "divisor can change its sign",
            "A divisor that was never negative can now cross zero: the quotient explodes and flips sign.",
            "h / h.sum(-1, keepdim=True)",
            "Divide by a norm (h.abs().sum, h.norm) plus epsilon, or use softmax for weights.",
        ),
        _rule(
            "sign-mask",
            "test of the sign as a test of activity",
            "A comparison with zero treats negative entries as inactive and drops them.",
            "h * (h > 0)",
            "Remove the mask, or test the magnitude (h.abs() > tolerance) where activity is meant.",
        ),
        _rule(
            "zero-test",
            "zero stands for absent",
            "Exact zero meant inactive or padded; a signed tensor has no exact zeros.",
            "(h == 0).float().mean()",
            "Carry an explicit mask, or compare magnitudes with a tolerance.",
        ),
        _rule(
            "clamp",
            "negative part cut off",
            "A ReLU or clamp that changed nothing now removes the negative half and its gradient.",
            "h.clamp(min=1e-6).pow(p)",
            "Remove the clamp, or use a signed form such as h.sign() * h.abs().clamp(min=eps).pow(p).",
        ),
        _rule(
            "zero-fill",
            "zero fill competes in a maximum",
            "Padded or masked entries were the neutral element of the maximum and now win over negative entries.",
            "F.max_pool2d(F.pad(h, (1, 1, 1, 1)), 3)",
            "Fill with -inf (or the dtype's minimum), or let the pooling pad by itself.",
        ),
        _rule(
            "probability",
            "used as a probability, weight or rate",
            "A sampler takes the values as probabilities or rates, which cannot be negative.",
            "torch.multinomial(h, 1)",
            "Map to probabilities first: softmax for weights, softplus or exp for rates.",
        ),
        _rule(
            "deviation",
            "used as a standard deviation",
            "A normal distribution takes the values as its standard deviation, which cannot be negative.",
            "torch.normal(mean, h)",
            "Parameterise the logarithm (exp(log_std)) or use softplus.",
        ),
        _rule(
            "unsigned-cast",
            "cast or quantised without a sign",
            "The integer type or quantiser has no codes for negative values; they wrap or saturate.",
            "(h * 255).to(torch.uint8)",
            "Use a signed type, or an affine quantiser whose zero point covers the new minimum.",
        ),
        _rule(
            "index",
            "used as an index",
            "Negative values index from the end or out of range.",
            "table[h.long()]",
            "Shift and clamp to the table's range, or bucketize.",
        ),
        _rule(
            "sorted",
            "cumulative sum taken as sorted",
            "A cumulative sum of signed entries is not monotone, so a binary search over it is wrong.",
            "torch.searchsorted(h.cumsum(-1), u)",
            "Accumulate non-negative priorities (abs, softplus, exp).",
        ),
        _rule(
            "decided",
            "comparison that no longer decides",
            "With the new range a test of the sign always gives the same answer.",
            "action = value > 0",
            "Keep the tensor signed, or compare with a threshold inside its range.",
        ),
        _rule(
            "unreachable",
            "target outside the range",
            "The tensor is fitted to targets of a sign that it can no longer produce.",
            "F.mse_loss(F.relu(value), returns)",
            "Leave the output linear, or restrict the targets.",
        ),
        _rule(
            "sign-gate",
            "backward gated by the sign of an activation",
            "Hand-written backward code masks the gradient by the sign of T: right for a ReLU, silently wrong for "
            "anything signed, without NaN.",
            "grad_h = grad_h * (saved_h > 0)",
            "Replace the mask by the true Jacobian of the producer, or leave the derivative to autograd.",
        ),
        _rule(
            "wrong-backward",
            "backward is not the Jacobian of the forward",
            "A float64 gradient check of a custom autograd function fails.",
            "return grad  # forgets the residual",
            "Derive the backward from the forward, and test it with torch.autograd.gradcheck on signed inputs.",
        ),
        _rule(
            "scale",
            "scale of the parts no longer matches",
            "T is joined or summed with another tensor; the ratio of their RMS leaves [1/3, 3].",
            "torch.cat([h, q / delta_z], -1)",
            "Rescale the other part by the factor in the evidence, best by measured RMS.",
        ),
        _rule(
            "duplicate-producer",
            "T is made by a second program",
            "Two different programs make T, so changing one lets them diverge (online against target, say).",
            "target_h = relu(linear(x))  # the online path calls trunk(x)",
            "Call the one producer from both paths and delete the copy.",
        ),
        _rule(
            "activation-type",
            "rule keyed on the activation's type",
            "Code looks for one activation class; another activation falls through silently.",
            "if isinstance(module, nn.ReLU): ...",
            "Handle every activation the model may hold and refuse unknown ones.",
        ),
        _rule(
            "shared-target",
            "target network is the online network",
            "A model named target shares its parameters with another one, so it follows every update.",
            "target = online",
            "Copy it: copy.deepcopy(online).",
        ),
        _rule(
            "opaque",
            "leaves the auditor's sight",
            "T is handed to code that cannot be followed (a raw pointer, numpy, a kernel without a Python body).",
            "kernel(h.data_ptr())",
            "Audit the kernel by hand, or register it with torch.library and a Python implementation.",
        ),
        _rule(
            "failed",
            "the step fails under the new range",
            "The program raises an error when T takes values of the new range.",
            "Normal(mean, h)  # raises on a negative scale",
            "See the evidence for the error and its line.",
        ),
    )
)
