"""Turning switches: every arm is a config that holds together, and differs from its base by what is named."""

from dataclasses import replace

import pytest

from foxhunt.config import ActingConfig, NetworkConfig, TrainConfig
from foxhunt.errors import ConfigError
from foxhunt.evaluate.switches import SWITCHES, companions, toggle
from foxhunt.presets import PRESETS


@pytest.mark.parametrize("preset", list(PRESETS))
@pytest.mark.parametrize("name", list(SWITCHES))
def test_toggling_turns_the_switch_and_only_what_goes_with_it(preset: str, name: str) -> None:
    base = PRESETS[preset]
    turned = toggle(base, name)
    changed = {each for each, switch in SWITCHES.items() if switch.state(base) != switch.state(turned)}
    assert changed == {name, *companions(base, name)}
    assert turned.tape == base.tape
    assert turned.market == base.market
    assert replace(turned, network=base.network, acting=base.acting, learner=base.learner) == base


def test_what_a_switch_needs_comes_with_it() -> None:
    base = TrainConfig()
    turned = toggle(base, "acting.risk-budget")
    assert turned.acting == ActingConfig(risk_budget=True)
    assert turned.network == NetworkConfig(risk_budget=True, confidence=True)
    assert companions(base, "acting.risk-budget") == ("confidence", "risk-budget")
    assert toggle(base, "acting.cvar").acting == ActingConfig(values="quantile", cvar=0.25)


def test_what_needs_a_switch_goes_with_it() -> None:
    full = PRESETS["full"]
    base = replace(full, acting=ActingConfig(risk_budget=True, values="quantile", cvar=0.5))
    assert companions(base, "confidence") == ("risk-budget", "acting.risk-budget")
    assert toggle(base, "confidence").network == replace(full.network, confidence=False, risk_budget=False)
    assert toggle(base, "quantiles").acting == ActingConfig(risk_budget=True)


def test_every_switch_of_the_network_and_of_acting_is_studied() -> None:
    settings = {(switch.section, switch.setting) for switch in SWITCHES.values()}
    for section, config in (("network", NetworkConfig()), ("acting", ActingConfig())):
        sizes = {"hidden1", "hidden2", "head_hidden", "atoms", "v_min", "v_max", "history", "plan_horizon"}
        fields = set(config.__dataclass_fields__) - sizes - {"selectivity_threshold"}
        assert {(section, field) for field in fields} <= settings


def test_unknown_switch_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown switch 'gru'; choose from trunk, gated-branches"):
        toggle(TrainConfig(), "gru")
