"""The switches of an agent, and turning one without contradicting the others."""

from dataclasses import dataclass, replace
from typing import Any, Final

from foxhunt.config import TrainConfig, require
from foxhunt.evaluate.acting import CAUTIOUS
from foxhunt.presets import FULL, PRESETS


@dataclass(frozen=True)
class Switch:
    """One setting with an on and an off."""

    section: str
    """Part of `TrainConfig` that holds it: network, acting or learner."""
    setting: str
    on: Any
    off: Any
    needs: tuple[str, ...] = ()
    """Switches that must be on where this one is."""

    def state(self, config: TrainConfig) -> bool:
        """Whether it is on."""
        return bool(getattr(getattr(config, self.section), self.setting) != self.off)


def _head(setting: str, off: Any = False, needs: tuple[str, ...] = ()) -> Switch:
    return Switch("network", setting, getattr(FULL, setting), off, needs)


SWITCHES: Final[dict[str, Switch]] = {
    "trunk": Switch("network", "trunk", "grn", "relu"),
    "gated-branches": _head("gated_branches"),
    "internal-state": _head("internal_state"),
    "temporal": _head("temporal"),
    "attention": _head("attention_heads", 0),
    "quantiles": _head("quantiles", 0),
    "ensemble": _head("ensemble", 0),
    "coordination": _head("coordination"),
    "confidence": _head("confidence"),
    "risk-budget": _head("risk_budget", needs=("confidence",)),
    "selectivity": _head("selectivity"),
    "trade-plan": _head("trade_plan"),
    "dropout": _head("dropout", 0.0),
    "predictive-coding": Switch("learner", "predictive_coding", PRESETS["full"].learner.predictive_coding, 0.0),
    "acting.quantile-values": Switch("acting", "values", "quantile", "categorical", ("quantiles",)),
    "acting.cvar": Switch("acting", "cvar", CAUTIOUS, 1.0, ("acting.quantile-values",)),
    "acting.risk-budget": Switch("acting", "risk_budget", True, False, ("risk-budget",)),
    "acting.selectivity": Switch("acting", "selectivity", True, False, ("selectivity",)),
    "acting.trade-plan": Switch("acting", "trade_plan", True, False, ("trade-plan",)),
}
"""Name on the command line -> switch. On is what preset `full` has."""


def toggle(config: TrainConfig, name: str) -> TrainConfig:
    """The config with one switch turned; what it needs comes with it, what needs it goes with it.

    Raises `ConfigError` on an unknown name.
    """
    require(name in SWITCHES, f"unknown switch {name!r}; choose from {', '.join(SWITCHES)}")
    on = not SWITCHES[name].state(config)
    settings: dict[str, dict[str, Any]] = {}
    for each in _needed(name) if on else _needing(name):
        switch = SWITCHES[each]
        if switch.state(config) != on:
            settings.setdefault(switch.section, {})[switch.setting] = switch.on if on else switch.off
    return replace(
        config, **{section: replace(getattr(config, section), **values) for section, values in settings.items()}
    )


def companions(config: TrainConfig, name: str) -> tuple[str, ...]:
    """Other switches that `toggle` turns together with this one."""
    turned = toggle(config, name)
    return tuple(each for each, s in SWITCHES.items() if each != name and s.state(config) != s.state(turned))


def _needed(name: str) -> list[str]:
    return [name, *(each for need in SWITCHES[name].needs for each in _needed(need))]


def _needing(name: str) -> list[str]:
    return [name, *(each for other, s in SWITCHES.items() if name in s.needs for each in _needing(other))]
