"""Public models, built without downloads."""

import torch
from torch import nn

from foxhunt.audit import Spec


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
