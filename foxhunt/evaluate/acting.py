"""Which heads act: changing it for a back-test, and switching each one to see what it is worth."""

from dataclasses import asdict, dataclass, replace
from typing import Final, Literal

from foxhunt.config import ActingConfig, NetworkConfig

SWITCHES: Final = {"risk_budget": "risk budget", "selectivity": "selectivity", "trade_plan": "trade plan"}
"""Heads that limit or veto trades, by the name of their switch, in words."""

CAUTIOUS: Final = 0.25
"""Share of worst outcomes that the cautious variation values actions by."""


@dataclass(frozen=True)
class ActingChanges:
    """What a back-test changes in how a run's agent acts; None keeps what it was trained with."""

    values: Literal["categorical", "quantile"] | None = None
    """Values acted on: mean of the categorical distribution, or of the quantile head."""
    cvar: float | None = None
    """Share of worst outcomes that the quantile head's mean is taken over; 1 is risk-neutral."""
    risk_budget: bool | None = None
    """Let the risk budget cap the position."""
    selectivity: bool | None = None
    """Stay flat where a trade is unlikely to pay for its costs."""
    selectivity_threshold: float | None = None
    """Least chance of paying at which a trade is taken."""
    trade_plan: bool | None = None
    """Run the trade plan as bracket orders: profit target, stop, horizon."""

    @property
    def given(self) -> dict[str, str | float | bool]:
        """The settings that are changed."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def apply(self, acting: ActingConfig) -> ActingConfig:
        """The changed config; raises `ConfigError` where the settings contradict each other."""
        return replace(acting, **self.given)  # type: ignore[arg-type]  # same names and types, None left out

    def flags(self) -> list[tuple[str, str]]:
        """Options of the command line that say the same, with their values."""
        return [(f"acting.{name.replace('_', '-')}", str(value)) for name, value in self.given.items()]


AS_TRAINED: Final = ActingChanges()


def switched_heads(acting: ActingConfig, network: NetworkConfig) -> dict[str, ActingConfig]:
    """The same agent with one acting head switched each: off where it acts, on where the network merely has it."""
    found = {}
    for head, words in SWITCHES.items():
        if getattr(network, head):
            acts = getattr(acting, head)
            found[f"{'without' if acts else 'with'} {words}"] = replace(acting, **{head: not acts})  # type: ignore[arg-type]  # a switch
    if network.quantiles:
        if acting.values == "quantile":
            found["without quantile values"] = replace(acting, values="categorical", cvar=1.0)
        else:
            found["with quantile values"] = replace(acting, values="quantile")
        if acting.cvar < 1:
            found["without caution"] = replace(acting, cvar=1.0)
        else:
            found[f"with CVaR {CAUTIOUS:g}"] = replace(acting, values="quantile", cvar=CAUTIOUS)
    return found


def describe(acting: ActingConfig) -> str:
    """How an agent acts, in words."""
    values = "mean of the categorical distribution"
    if acting.values == "quantile":
        values = "mean of the quantile head" + (f" over the worst {acting.cvar:g}" if acting.cvar < 1 else "")
    acts = [words for head, words in SWITCHES.items() if getattr(acting, head)]
    if acting.selectivity:
        acts[acts.index("selectivity")] += f" (threshold {acting.selectivity_threshold:g})"
    return f"values: {values}; acting heads: {', '.join(acts) if acts else 'none'}"
