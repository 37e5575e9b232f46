"""From an observation to h: trunk, dropout, gate, history and attention, in this order."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foxhunt.config import NetworkConfig
from foxhunt.nn.attention import FeatureAttention
from foxhunt.nn.gates import ConditionGate, RegimeDropout
from foxhunt.nn.grn import make_trunk
from foxhunt.nn.isv import InternalState, Slot, StateEmbedding
from foxhunt.nn.temporal import Temporal

ISV_EMBEDDING = 16
"""Width of the embedded internal state vector."""
OFI_EMBEDDING = 8
"""Width of the embedded order-flow imbalance in the history."""
HISTORY, HISTORY_VALID = "history", "history_valid"
"""Observation parts that hold the past: [batch, steps, memory] and whether each step belongs to the episode."""


class Encoding(NamedTuple):
    """What the heads read."""

    h: Float[Tensor, "batch hidden"]
    memory: Float[Tensor, "batch memory"]
    isv: Float[Tensor, "batch condition"]
    """Embedded internal state vector."""


class Encoder(nn.Module):
    """One implementation for the online, the target and the quantile path."""

    def __init__(self, widths: dict[str, int], config: NetworkConfig) -> None:
        super().__init__()
        # The regime reaches h through the internal state vector alone; its features are in `market` already.
        self.parts = tuple(part for part in widths if part != "regime")
        inputs, hidden = sum(widths[part] for part in self.parts), config.hidden2
        self.trunk = make_trunk(config.trunk, inputs, config.hidden1, hidden)
        self.isv = InternalState()
        self.condition_width = ISV_EMBEDDING
        reads_isv = config.internal_state or config.temporal or config.risk_budget
        self.embed_isv = StateEmbedding(ISV_EMBEDDING) if reads_isv else None
        self.dropout = RegimeDropout(config.dropout) if config.dropout else None
        self.gate = ConditionGate(hidden, ISV_EMBEDDING) if config.internal_state else None
        ofi = OFI_EMBEDDING if config.temporal and "ofi" in widths else 0
        self.embed_ofi = nn.Linear(widths["ofi"], ofi) if ofi else None
        self.temporal = Temporal(hidden, ofi, ISV_EMBEDDING) if config.temporal else None
        self.attention = FeatureAttention(hidden, config.attention_heads) if config.attention_heads else None
        self.memory_width = hidden + ofi
        """Width of what each step leaves to the history."""

    def trunk_output(self, observation: dict[str, Tensor]) -> Float[Tensor, "batch hidden"]:
        """h_s2 as the trunk leaves it."""
        h: Tensor = self.trunk(torch.cat([observation[part] for part in self.parts], dim=-1))
        return h

    def forward(self, observation: dict[str, Tensor], seed: Int[Tensor, ""] | None = None) -> Encoding:
        """Encode a batch; `seed` draws the dropout, without it nothing is dropped."""
        h = self.trunk_output(observation)
        isv = self.isv(observation)
        embedded = self.embed_isv(isv) if self.embed_isv else isv
        if self.dropout and seed is not None:
            h = self.dropout(h, isv[:, Slot.STABILITY], seed)
        if self.gate:
            h = self.gate(h, embedded)
        ofi = self.embed_ofi(observation["ofi"]) if self.embed_ofi else h[:, :0]
        memory = torch.cat((h, ofi), -1)
        if self.temporal:
            h = self.temporal(h, ofi, observation[HISTORY], observation[HISTORY_VALID], embedded)
        if self.attention:
            h = self.attention(h)
        return Encoding(h, memory, embedded)
