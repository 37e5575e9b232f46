"""The trading agent of the founding document as it stood before its trunk was swapped, with its real faults.

Everything is written as its kernels were: buffers that are overwritten in place, backward passes by hand, no autograd.
The audited tensor is the trunk output `h_s2`; names and rows follow the document.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from foxhunt.audit import Consumer, Spec

STATES, H1, H2, HIDDEN, ATOMS, OFI, ISV, HISTORY, QUANTILES, BATCH = 10, 16, 12, 8, 11, 4, 12, 3, 6, 16
DELTA_Z = 0.5
SUPPORT = DELTA_Z * torch.arange(ATOMS)

ROWS = (
    ("value head", "forward_value_head"),
    ("direction branch", "forward_direction"),
    ("magnitude branch (mag_concat)", "forward_magnitude"),
    ("order and urgency branches (concat_ofi)", "forward_order_urgency"),
    ("VSN bottleneck", "variable_select_bottleneck"),
    ("Mamba2 history insert", "mamba2_update_history"),
    ("Mamba2 enrich", "mamba2_scan_projected_fwd"),
    ("multi-head feature attention", "apply_attention_forward"),
    ("IQN dual head", "iqn_dual_head"),
    ("IQN tile and Hadamard sigmoid", "iqn_tile_hadamard_sigmoid", "iqn_tile_hadamard_sigmoid_backward"),
    ("IQN target trunk", "iqn_trunk_forward_kernel", "iqn_target_trunk"),
    ("risk-budget head", "risk_budget_forward"),
    ("recursive confidence head", "recursive_confidence", "recursive_confidence_backward"),
    ("selectivity head", "selectivity", "selectivity_backward"),
    ("ISV feature gate", "isv_feature_gate"),
    ("ISV temporal route", "isv_temporal_route"),
    ("trade-plan head", "launch_trade_plan_forward"),
    ("regime-aware dropout", "regime_dropout"),
    ("predictive coding loss", "predictive_coding", "predictive_coding_backward"),
    ("mag-concat backward", "accumulate_d_h_s2_from_concat"),
    ("branch-decoder VSN and GLU (KAN gate)", "kan_gate_combine"),
    ("trunk-backward ReLU mask", "relu_mask"),
    ("target-network trunk", "forward_target_raw"),
    ("experience-collector storage", "store_experience"),
    ("Q-statistics and monitoring", "q_statistics"),
    ("cross-branch Q-attention", "cross_branch_q_attention"),
    ("ensemble value head", "forward_value_head_for_ensemble"),
    ("direction-branch backward", "branch_backward"),
)


def sgemm_fused_relu_bias(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """relu(x W^T + b)"""
    return torch.relu(x @ weight.t() + bias)


def launch_trunk_bias_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The IQN trainer's own copy of the same."""
    return (x @ weight.t() + bias).clamp_(min=0)


def relu_mask(d: Tensor, saved: Tensor) -> Tensor:
    """d * (saved > 0)"""
    return d * (saved > 0)


def iqn_trunk_forward_kernel(weights: dict[str, Tensor], states: Tensor) -> Tensor:
    """Loaded by the head and never launched."""
    h_s1 = torch.relu(states @ weights["s1"].t() + weights["b_s1"])
    return torch.relu(h_s1 @ weights["s2"].t() + weights["b_s2"])


def _weights(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = {
        "s1": (H1, STATES), "s2": (H2, H1), "v1": (HIDDEN, H2), "v2": (ATOMS, HIDDEN), "b0": (HIDDEN, H2),
        "q0": (3 * ATOMS, HIDDEN), "b1": (HIDDEN, H2 + 3), "b2": (HIDDEN, H2 + 3), "vsn1": (4, H2), "vsn2": (H2, 4),
        "isv": (H2, ISV), "route": (2, ISV), "ctx": (H2, (H2 + OFI) * HISTORY), "qk": (H2, H2), "embed": (H2, 4),
        "iqn": (3, H2), "risk": (HIDDEN, H2 + ISV + 1), "risk_out": (1, HIDDEN), "conf": (1, H2), "sel": (1, H2),
        "plan1": (HIDDEN, H2), "plan2": (3, HIDDEN), "tw": (H2,),
    }  # fmt: skip
    made = {name: torch.randn(shape, generator=generator) / shape[-1] ** 0.5 for name, shape in shapes.items()}
    made |= {"b_s1": torch.zeros(H1), "b_s2": torch.zeros(H2), "b_v1": torch.zeros(HIDDEN), "o": torch.zeros(H2, H2)}
    # Post-ReLU activations of the document are of order 1 to 10.
    return made | {"s2": 7 * made["s2"], "tw": 0.1 * made["tw"]}


@dataclass
class Agent:
    """Weights and device buffers."""

    online: dict[str, Tensor] = field(default_factory=lambda: _weights(0))
    target: dict[str, Tensor] = field(default_factory=lambda: _weights(1))
    save_h_s2: Tensor = field(default_factory=lambda: torch.zeros(BATCH, H2))
    h_history: Tensor = field(default_factory=lambda: torch.zeros(HISTORY, BATCH, H2 + OFI))
    exp_h_s2: Tensor = field(default_factory=lambda: torch.zeros(4, BATCH, H2))
    trunk_forward_kernel: Callable[..., Tensor] = iqn_trunk_forward_kernel

    # --- trunk and what works on it in place ------------------------------------------------------------------------
    def trunk_forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """h_s2 = ReLU(W_s2 ReLU(W_s1 x))"""
        w = self.online
        h_s1 = sgemm_fused_relu_bias(states, w["s1"], w["b_s1"])
        h_s2 = sgemm_fused_relu_bias(h_s1, w["s2"], w["b_s2"])
        return h_s1, h_s2

    def regime_dropout(self, h: Tensor, rate: float) -> None:
        """h = 0, or h *= 1/(1-p)"""
        keep = (torch.rand(h.shape) >= rate).float()
        h.mul_(keep / (1 - rate))

    def isv_feature_gate(self, h: Tensor, isv_emb: Tensor) -> None:
        """h *= sigmoid(W isv_emb)"""
        h.mul_(torch.sigmoid(isv_emb @ self.online["isv"].t()))

    def mamba2_update_history(self, h: Tensor, ofi_embed: Tensor) -> None:
        """h_history[K-1] = [h; ofi_embed]"""
        self.h_history[-1, :, :H2] = h
        self.h_history[-1, :, H2:] = ofi_embed

    def isv_temporal_route(self, isv_emb: Tensor) -> Tensor:
        """Reads the ISV embedding, never h_s2."""
        return torch.softmax(isv_emb @ self.online["route"].t(), -1)

    def mamba2_scan_projected_fwd(self, h: Tensor, route: Tensor) -> None:
        """h_enriched = h + tw * ctx, copied to save_h_s2"""
        history = self.h_history.transpose(0, 1).reshape(BATCH, -1)
        ctx = (history @ self.online["ctx"].t()) * route[:, :1]
        self.save_h_s2.copy_(h + self.online["tw"] * ctx)

    def apply_attention_forward(self, h: Tensor) -> None:
        """LN(h + W_O gate V), written over save_h_s2"""
        w = self.online
        query, key, value = h @ w["qk"].t(), h @ w["qk"], h @ w["vsn2"] @ w["vsn1"]
        gate = torch.sigmoid((query * key).sum(-1, keepdim=True) / H2**0.5)
        mixed = h + (gate * value) @ w["o"].t()
        self.save_h_s2.copy_(torch.nn.functional.layer_norm(mixed, (H2,)))

    # --- heads ------------------------------------------------------------------------------------------------------
    def forward_value_head(self, w: dict[str, Tensor], h: Tensor) -> tuple[Tensor, Tensor]:
        """h_v = ReLU(h W_v1), atoms"""
        h_v = sgemm_fused_relu_bias(h, w["v1"], w["b_v1"])
        return h_v, h_v @ w["v2"].t()

    def forward_value_head_for_ensemble(self, h: Tensor) -> Tensor:
        """The same head again, for the spread of an ensemble."""
        return self.forward_value_head(self.online, h)[1]

    def forward_direction(self, w: dict[str, Tensor], h: Tensor) -> tuple[Tensor, Tensor]:
        """h_b0 = ReLU(h W_b0), expected return of three directions"""
        h_b0 = sgemm_fused_relu_bias(h, w["b0"], w["b_v1"])
        return h_b0, torch.softmax((h_b0 @ w["q0"].t()).view(BATCH, 3, ATOMS), -1) @ SUPPORT

    def variable_select_bottleneck(self, h: Tensor) -> Tensor:
        """h * sigmoid(W_2 W_1 h)"""
        return h * torch.sigmoid(h @ self.online["vsn1"].t() @ self.online["vsn2"].t())

    def kan_gate_combine(self, projected: Tensor) -> Tensor:
        """Sees features after the branch's own layer only."""
        return projected * torch.sigmoid(projected.clamp(-3, 3) ** 3 / 9)

    def forward_magnitude(self, h: Tensor, q_dir: Tensor) -> Tensor:
        """[h; Q_dir / delta_z]; normalised so that Q_dir ~ 1-10 matches the post-ReLU scale."""
        mag_concat = torch.cat([h, q_dir / DELTA_Z], -1)
        return sgemm_fused_relu_bias(mag_concat, self.online["b1"], self.online["b_v1"])

    def forward_order_urgency(self, h: Tensor, ofi3: Tensor) -> Tensor:
        """[h; OFI3]"""
        concat = torch.cat([h, ofi3], -1)
        return sgemm_fused_relu_bias(concat, self.online["b2"], self.online["b_v1"])

    def iqn_dual_head(self, h: Tensor, cosines: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """combined = h * ReLU(W cos(tau)); quantiles and the backward to the embedding"""
        embed_pre = cosines @ self.online["embed"].t()
        combined = h[:, None] * torch.relu(embed_pre)
        quantiles = combined @ self.online["iqn"].t()
        d_pre = (quantiles @ self.online["iqn"]) * h[:, None] * (embed_pre > 0)
        return quantiles, embed_pre, d_pre

    def iqn_tile_hadamard_sigmoid(self, h: Tensor, embed: Tensor) -> Tensor:
        """h_tiled * sigmoid(embed)"""
        return h[:, None].expand(-1, QUANTILES, -1) * torch.sigmoid(embed)

    def iqn_tile_hadamard_sigmoid_backward(self, d: Tensor, h: Tensor, embed: Tensor) -> tuple[Tensor, Tensor]:
        """To the tile and to the embedding"""
        gate = torch.sigmoid(embed)
        return (d * gate).sum(1), d * h[:, None] * gate * (1 - gate)

    def recursive_confidence(self, h: Tensor) -> Tensor:
        """sigmoid(W h)"""
        return torch.sigmoid(h @ self.online["conf"].t())

    def recursive_confidence_backward(self, d: Tensor, h: Tensor, bw_d_h_s2: Tensor) -> Tensor:
        """d_h += d w, dW = d^T h"""
        bw_d_h_s2 += d @ self.online["conf"]
        return d.t() @ h

    def risk_budget_forward(self, h: Tensor, isv: Tensor, pred_err: Tensor) -> Tensor:
        """sigmoid(W_o ReLU(W [h; isv; pred_err]))"""
        joined = torch.cat([h, isv, pred_err], -1)
        return torch.sigmoid(torch.relu(joined @ self.online["risk"].t()) @ self.online["risk_out"].t())

    def selectivity(self, h: Tensor) -> Tensor:
        """sigmoid(W h)"""
        return torch.sigmoid(h @ self.online["sel"].t())

    def selectivity_backward(self, d: Tensor, h: Tensor) -> Tensor:
        """dW = d^T h"""
        return d.t() @ h

    def launch_trade_plan_forward(self, h: Tensor) -> Tensor:
        """sigmoid(W ReLU(W h))"""
        return torch.sigmoid(torch.relu(h @ self.online["plan1"].t()) @ self.online["plan2"].t())

    def cross_branch_q_attention(self, q_raw: Tensor) -> Tensor:
        """Attention over Q-values of the branches"""
        return torch.softmax(q_raw[:, :, None] * q_raw[:, None, :], -1) @ q_raw[:, :, None]

    def predictive_coding(self, h: Tensor) -> Tensor:
        """mean_j (h[i] - h[i+1])^2"""
        return (h[:-1] - h[1:]).square().mean()

    def predictive_coding_backward(self, h: Tensor, bw_d_h_s2: Tensor) -> None:
        """2 (h_self - h_neighbour) / H2, to both"""
        difference = 2 / H2 * (h[:-1] - h[1:])
        bw_d_h_s2[:-1] += difference
        bw_d_h_s2[1:] -= difference

    # --- storage, target, monitoring --------------------------------------------------------------------------------
    def store_experience(self, h: Tensor) -> None:
        """exp_h_s2"""
        self.exp_h_s2[0] = h

    def forward_target_raw(self, states: Tensor) -> Tensor:
        """The target network's own trunk, then the shared heads."""
        w = self.target
        tg_h_s1 = sgemm_fused_relu_bias(states, w["s1"], w["b_s1"])
        tg_h_s2 = sgemm_fused_relu_bias(tg_h_s1, w["s2"], w["b_s2"])
        self.forward_value_head(w, tg_h_s2)
        self.forward_direction(w, tg_h_s2)
        return tg_h_s2

    def iqn_target_trunk(self, states: Tensor) -> Tensor:
        """The IQN trainer's fallback: a third trunk."""
        w = self.target
        hidden = launch_trunk_bias_relu(states, w["s1"], w["b_s1"])
        return launch_trunk_bias_relu(hidden, w["s2"], w["b_s2"])

    def q_statistics(self, tg_h_s2: Tensor) -> float:
        """Read back for monitoring."""
        return float(tg_h_s2.square().mean().sqrt())

    # --- backward ---------------------------------------------------------------------------------------------------
    def branch_backward(self, h: Tensor, h_b0: Tensor, bw_d_h_s2: Tensor) -> Tensor:
        """dX = dY W, accumulated; dW = dY^T h"""
        d = h_b0 * (h_b0 > 0)
        bw_d_h_s2 += d @ self.online["b0"]
        return d.t() @ h

    def accumulate_d_h_s2_from_concat(self, d_mag_concat: Tensor, bw_d_h_s2: Tensor) -> None:
        """d_h_s2 += d_mag_concat[:, :H2]"""
        bw_d_h_s2 += d_mag_concat[:, :H2]

    def backward(self, h_s1: Tensor, h: Tensor, h_b0: Tensor, h_b1: Tensor, confidence: Tensor) -> Tensor:
        """All that accumulates into d_h_s2, then the trunk."""
        bw_d_h_s2 = torch.zeros(BATCH, H2)
        self.branch_backward(h, h_b0, bw_d_h_s2)
        self.accumulate_d_h_s2_from_concat(h_b1 @ self.online["b1"], bw_d_h_s2)
        self.recursive_confidence_backward(confidence * (1 - confidence), h, bw_d_h_s2)
        self.selectivity_backward(confidence, h)
        self.predictive_coding_backward(h, bw_d_h_s2)
        self.apply_iqn_trunk_gradient(bw_d_h_s2)
        self.target_sync_gradient(bw_d_h_s2)
        d_s2 = relu_mask(bw_d_h_s2, self.save_h_s2)
        return relu_mask(d_s2 @ self.online["s2"], h_s1)

    def apply_iqn_trunk_gradient(self, d_iqn: Tensor) -> Tensor:
        """The IQN trainer's way into the trunk."""
        return relu_mask(d_iqn, self.save_h_s2) @ self.online["s2"]

    def target_sync_gradient(self, d_sync: Tensor) -> Tensor:
        """Once a target update."""
        return relu_mask(d_sync, self.save_h_s2) @ self.online["s2"]


def step(agent: Agent, states: Tensor, ofi: Tensor, ofi3: Tensor, isv: Tensor, cosines: Tensor) -> None:
    """One training step: forward, target, heads, backward."""
    h_s1, h_s2 = agent.trunk_forward(states)
    agent.regime_dropout(h_s2, 0.2)
    agent.isv_feature_gate(h_s2, isv)
    agent.mamba2_update_history(h_s2, ofi)
    agent.mamba2_scan_projected_fwd(h_s2, agent.isv_temporal_route(isv))
    h = agent.save_h_s2
    agent.apply_attention_forward(h)
    agent.store_experience(h)
    agent.forward_value_head(agent.online, h)
    agent.forward_value_head_for_ensemble(h)
    h_b0, q_dir = agent.forward_direction(agent.online, h)
    agent.kan_gate_combine(agent.variable_select_bottleneck(h) @ agent.online["b0"].t())
    h_b1 = agent.forward_magnitude(h, q_dir)
    agent.forward_order_urgency(h, ofi3)
    _, embed, d_pre = agent.iqn_dual_head(h, cosines)
    agent.iqn_tile_hadamard_sigmoid(h, embed)
    agent.iqn_tile_hadamard_sigmoid_backward(d_pre, h, embed)
    confidence = agent.recursive_confidence(h)
    agent.risk_budget_forward(h, isv, confidence)
    agent.selectivity(h)
    agent.launch_trade_plan_forward(h)
    agent.cross_branch_q_attention(q_dir)
    agent.predictive_coding(h)
    agent.q_statistics(agent.forward_target_raw(states))
    agent.iqn_dual_head(agent.iqn_target_trunk(states), cosines)
    agent.backward(h_s1, h, h_b0, h_b1, confidence)


def build() -> Spec:
    """The audit that the founding document was."""
    torch.manual_seed(0)
    inputs = (
        Agent(),
        torch.randn(BATCH, STATES),
        torch.randn(BATCH, OFI),
        torch.randn(BATCH, 3),
        torch.randn(BATCH, ISV),
        torch.randn(BATCH, QUANTILES, 4),
    )
    places = ("trunk_forward:h_s2", "step:h", "forward_target_raw:tg_h_s2", "iqn_target_trunk()")
    return Spec(
        step,
        inputs,
        places,
        becomes="signed,rms=1",
        declare=tuple(Consumer(name, tuple(where)) for name, *where in ROWS),
        gradient="Agent.backward:bw_d_h_s2",
    )
