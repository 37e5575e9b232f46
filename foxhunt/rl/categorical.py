"""Categorical distributions of returns (C51)."""

import torch
from jaxtyping import Float
from torch import Tensor


def project(
    r_t: Float[Tensor, " batch"],
    discount_t: Float[Tensor, " batch"],
    probabilities: Float[Tensor, "batch atoms"],
    atoms: Float[Tensor, " atoms"],
) -> Float[Tensor, "batch atoms"]:
    """Distribution of r_t + discount_t * Z, put back on the atoms.

    A triangular gather: m_i = sum_j p_j clip(1 - |b_j - i|, 0, 1), where b_j is the place of the moved atom j counted
    in atoms and clipped to the support. Counting in atoms makes the two weights of every moved atom sum to 1 in
    float32 whatever the support, leaves mass that lands on an atom there, and needs no scatter.

    Source: Bellemare, Dabney, Munos 2017, algorithm 1.
    """
    if r_t.shape != discount_t.shape or probabilities.shape != (*r_t.shape, *atoms.shape):
        raise ValueError("r_t and discount_t must be [batch], probabilities [batch, atoms], atoms [atoms]")
    last = len(atoms) - 1
    index = torch.arange(len(atoms), dtype=atoms.dtype, device=atoms.device)
    offset = (r_t + (discount_t - 1) * atoms[0]) * last / (atoms[-1] - atoms[0])
    place = (offset[:, None] + discount_t[:, None] * index).clamp(0, last)
    distance = (place[:, None, :] - index[:, None]).abs_()  # in place from here on: [batch, atoms, atoms] is large
    weight = distance.neg_().add_(1).clamp_(min=0)
    return (weight @ probabilities[..., None]).squeeze(-1)


def cross_entropy(
    logits: Float[Tensor, "*batch atoms"], target: Float[Tensor, "*batch atoms"]
) -> Float[Tensor, "*batch"]:
    """-sum_i target_i log softmax(logits)_i, finite for every finite logit."""
    return -(target * logits.log_softmax(-1)).sum(-1)


def mean(logits: Float[Tensor, "*batch atoms"], atoms: Float[Tensor, " atoms"]) -> Float[Tensor, "*batch"]:
    """Expected return of a distribution given by logits."""
    return logits.softmax(-1) @ atoms
