"""Public modules, built without downloads, with their readers as somebody who read their source labels them.

python -m tests.audit.models.public     prints the table of docs/audit/models.md
"""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

import torch
from torch import nn

from foxhunt.audit import Report, Spec, audit_spec

SAFE, UNSAFE, CHECK = "safe-with-signed", "assumes-non-negative", "needs-verification"


def bert() -> Spec:
    """transformers: the hidden layer of a BERT block with ReLU."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        hidden_act="relu",
    )
    return Spec(BertModel(config), (torch.arange(12).view(2, 6),), "encoder.layer.0.intermediate")


def bert_block() -> Spec:
    """transformers: the output of a BERT block, read by the next block's projections and its residual."""
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24)
    return Spec(BertModel(config), (torch.arange(12).view(2, 6),), "encoder.layer.0")


def mixtral() -> Spec:
    """transformers: routing weights of a mixture of experts, divided by their sum."""
    from transformers import MixtralConfig
    from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock

    config = MixtralConfig(hidden_size=16, intermediate_size=24, num_local_experts=4, num_experts_per_tok=2)
    block = MixtralSparseMoeBlock(config)
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.1)
    return Spec(block, (torch.randn(2, 5, 16),), "gate.router_probs", assume="[0,1]", models=block)


def dqn() -> Spec:
    """stable-baselines3: the hidden layer of a Q-network."""
    import gymnasium
    from stable_baselines3.dqn.policies import DQNPolicy

    policy = DQNPolicy(
        gymnasium.spaces.Box(-1, 1, (6,)), gymnasium.spaces.Discrete(3), lambda _: 1e-3, net_arch=[12, 12]
    )
    return Spec(policy.q_net.forward, (torch.randn(8, 6),), "q_net.3", models=policy.q_net)


def actor_critic() -> Spec:
    """stable-baselines3: features of an actor-critic policy with ReLU, evaluated for an update."""
    import gymnasium
    from stable_baselines3.common.policies import ActorCriticPolicy

    policy = ActorCriticPolicy(
        gymnasium.spaces.Box(-1, 1, (6,)), gymnasium.spaces.Box(-1, 1, (2,)), lambda _: 1e-3, activation_fn=nn.ReLU
    )

    def step(observations: torch.Tensor, actions: torch.Tensor) -> None:
        values, likelihood, _ = policy.evaluate_actions(observations, actions)
        (values.mean() + likelihood.mean()).backward()

    return Spec(step, (torch.randn(8, 6), torch.randn(8, 2)), "mlp_extractor.policy_net", models=policy)


def quantile_network() -> Spec:
    """tianshou: the trunk of an implicit quantile network, multiplied by the embedding of tau."""
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.discrete import ImplicitQuantileNetwork

    trunk = Net(state_shape=(6,), hidden_sizes=[12])
    network = ImplicitQuantileNetwork(preprocess_net=trunk, action_shape=3, num_cosines=8)

    def step(states: torch.Tensor) -> None:
        (values, _), _ = network(states, sample_size=5)
        values.mean().backward()

    return Spec(step, (torch.randn(8, 6),), "preprocess.model", models=network)


def gated_residual() -> Spec:
    """pytorch-forecasting: the inner activation of a gated residual network."""
    from pytorch_forecasting.models.temporal_fusion_transformer.sub_modules import GatedResidualNetwork

    return Spec(GatedResidualNetwork(8, 12, 8, dropout=0.1), (torch.randn(4, 5, 8),), "elu", assume=">=0")


def variable_selection() -> Spec:
    """pytorch-forecasting: softmax weights of a variable-selection network."""
    from pytorch_forecasting.models.temporal_fusion_transformer.sub_modules import VariableSelectionNetwork

    network = VariableSelectionNetwork(
        input_sizes={"a": 1, "b": 1}, hidden_size=8, input_embedding_flags={}, dropout=0.1
    )
    inputs = {"a": torch.randn(3, 5, 1), "b": torch.randn(3, 5, 1)}
    return Spec(network, (inputs,), "softmax", assume="[0,1]")


def feed_forward() -> Spec:
    """x-transformers: the hidden layer of a feed-forward block with ReLU."""
    from x_transformers.x_transformers import FeedForward

    return Spec(FeedForward(8, custom_activation=nn.ReLU(), dropout=0.1), (torch.randn(2, 5, 8),), "ff.0")


def attention() -> Spec:
    """x-transformers: attention weights, dropped at random and multiplied by the values."""
    from x_transformers.x_transformers import Attention

    weights = "Attend.forward:attn"
    return Spec(Attention(8, heads=2, dim_head=4, dropout=0.1), (torch.randn(2, 5, 8),), weights, assume="[0,1]")


def rotary() -> Spec:
    """rotary-embedding-torch: queries that are rotated by their position."""
    from rotary_embedding_torch import RotaryEmbedding

    embedding = RotaryEmbedding(dim=8)
    return Spec(embedding.rotate_queries_or_keys, (torch.randn(1, 2, 6, 8),), "input[0]", models=embedding)


def entmax() -> Spec:
    """entmax: weights of 1.5-entmax, of whose square root a hand-written backward makes the gradient."""
    from entmax import Entmax15

    module = nn.Sequential(nn.Linear(6, 5), Entmax15(-1))
    return Spec(module, (torch.randn(4, 6),), "Entmax15Function.forward:Y", assume="[0,1]")


def sparsemax() -> Spec:
    """entmax: weights of sparsemax, whose zeros tell a hand-written backward what lies outside the support."""
    from entmax import Sparsemax

    module = nn.Sequential(nn.Linear(6, 5), Sparsemax(-1))
    return Spec(module, (torch.randn(4, 6),), "SparsemaxFunction.forward:output", assume="[0,1]")


@dataclass(frozen=True)
class Model:
    """A module of a package and who reads its tensor: text of the line or path of the submodule, and verdict; in the
    order of the report."""

    package: str
    module: str
    build: Callable[[], Spec]
    labels: tuple[tuple[str, str], ...]


MODELS: Final = (
    Model("transformers", "BERT block, inside", bert, (("self.dense(hidden_states)", SAFE),)),
    Model(
        "transformers",
        "BERT block, output",
        bert_block,
        (
            ("self.query(hidden_states)", SAFE),
            ("self.key(hidden_states)", SAFE),
            ("self.value(hidden_states)", SAFE),
            ("self.LayerNorm(hidden_states + input_tensor)", SAFE),
        ),
    ),
    Model("transformers", "Mixtral router", mixtral, (("torch.topk(router_probs", UNSAFE),)),
    Model("stable-baselines3", "DQN policy", dqn, (("self.q_net(", SAFE),)),
    Model("stable-baselines3", "actor-critic policy", actor_critic, (("self.action_net(latent_pi)", SAFE),)),
    Model("tianshou", "implicit quantile network", quantile_network, (("logits.unsqueeze(1) *", SAFE),)),
    Model("pytorch-forecasting", "gated residual network", gated_residual, (("self.fc2(x)", SAFE),)),
    Model("pytorch-forecasting", "variable selection", variable_selection, (("var_outputs * sparse_weights", SAFE),)),
    Model("x-transformers", "feed-forward block", feed_forward, (("ff.1", SAFE), ("ff.2", SAFE))),
    Model(
        "x-transformers", "attention", attention, (("self.attn_dropout(attn)", SAFE), ("-> b h i d', attn, v)", SAFE))
    ),
    Model(
        "rotary-embedding-torch",
        "rotary embedding",
        rotary,
        (("t_middle * freqs.cos()", SAFE), ("torch.stack((-x2, x1)", SAFE), ("torch.cat((t_left", SAFE)),
    ),
    Model("entmax", "1.5-entmax", entmax, (("Y.sqrt()", UNSAFE),)),
    Model("entmax", "sparsemax", sparsemax, (("[output == 0] = 0", UNSAFE), ("torch.where(output != 0", UNSAFE))),
)


def texts(report: Report, number: int) -> list[str]:
    """The name of a row and the lines at which it reads, wherever their package lies."""
    found = [report.rows[number].name]
    for site in report.rows[number].sites:
        module = importlib.import_module(site.file.removesuffix(".py").replace("/", "."))
        found.append(inspect.getsource(module).splitlines()[site.line - 1].strip())
    return found


def recall(model: Model, report: Report) -> float:
    """Share of the labelled readers that the report has with their verdict; a row counts for one label."""
    left = [(texts(report, number), row.verdict) for number, row in enumerate(report.rows)]
    found = 0
    for text, verdict in model.labels:
        row = next((row for row in left if row[1] == verdict and any(text in line for line in row[0])), None)
        if row is not None:
            left.remove(row)
            found += 1
    return found / len(model.labels)


def table() -> str:
    """One line for every module."""
    lines = [
        "| package | module | readers | recall | not labelled | needs verification | verdict of the whole |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for model in MODELS:
        report = audit_spec(model.build)
        counts = report.counts
        worst = next((verdict for verdict in (UNSAFE, CHECK) if counts[verdict]), SAFE)
        rows = len(report.rows)
        lines.append(
            f"| {model.package} {version(model.package)} | {model.module} | {len(model.labels)} | "
            f"{recall(model, report):.0%} | {max(0, rows - len(model.labels))} | {counts[CHECK] / rows:.0%} | {worst} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
