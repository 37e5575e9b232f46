"""Keeps what an agent's network says while it is sent through a market, for the ledger and the report."""

from torch import Tensor, stack

from foxhunt.interface import Decision, Observation
from foxhunt.nn.network import NetworkOutput
from foxhunt.rl.act import Actor, greedy


class Listener:
    """A `rl.act.Watch` that remembers every statement; make a fresh one for each sweep."""

    def __init__(self) -> None:
        self._steps: list[dict[str, Tensor]] = []

    def __call__(self, actor: Actor, observation: Observation, output: NetworkOutput, decision: Decision) -> None:
        """Keep one decision's statements, by the names of `record.HEADS`; what the network lacks is left out."""
        network = actor.network
        q = network.values(output.logits)
        taken = q.gather(-1, decision.action.unsqueeze(-1)).squeeze(-1)
        said = {f"value_{name}": taken[:, place] for place, name in enumerate(network.heads.names)}
        said["best_value"] = q.amax(-1).mean(1)
        said["wanted"] = greedy(actor.values(output))[:, network.heads.names.index("direction")]
        said["volatility_ratio"], said["stability"] = observation["regime"].unbind(-1)
        if output.error_logit is not None:
            said["forecast_error"] = output.error_logit.sigmoid()
        if output.risk is not None:
            said["risk_budget"] = output.risk
        if output.selectivity_logit is not None:
            said["selectivity"] = output.selectivity_logit.sigmoid()
        if output.plan is not None:
            said |= {f"plan_{name}": value for name, value in output.plan._asdict().items()}
        self._steps.append({name: value.cpu() for name, value in said.items()})

    def statements(self) -> dict[str, Tensor]:
        """Everything heard, [environments, steps] each."""
        return {name: stack([step[name] for step in self._steps], 1) for name in self._steps[0]}
