"""The market as Gymnasium environments. Importing this module registers `foxhunt/Trading-v0`.

    gymnasium.make("foxhunt.market.gymnasium:foxhunt/Trading-v0", data="data/demo", part="train")

makes one environment that stable-baselines3 trains on as it is; `make_vec` makes many, stepped at once. In both,
rewards are in reward units (see `FeatureScaler.reward_unit`) and `info` tells money.
"""

from pathlib import Path
from typing import Any, Final, Literal, TypedDict, Unpack

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from foxhunt.config import MarketConfig, SplitConfig, TapeConfig
from foxhunt.errors import ConfigError
from foxhunt.interface import Observation, StepResult
from foxhunt.market.actions import BRANCHES
from foxhunt.market.environment import TradingEnvironment
from foxhunt.market.scaling import CLIP, FeatureScaler
from foxhunt.market.split import SPLITS, split_tape
from foxhunt.market.tape import Tape, load_tape

IDENTIFIER: Final = "foxhunt/Trading-v0"

Flat = NDArray[np.float32]
_SIZES: Final = tuple(size for _, size in BRANCHES)


class Source(TypedDict, total=False):
    """What an environment replays: `data`, a dataset folder, or `tape`; the rest has defaults.

    The scaler is fitted on the train part, whatever `part` is played.
    """

    data: Path | str
    tape: Tape
    symbols: tuple[str, ...]
    part: Literal["train", "validate", "test"]
    tape_config: TapeConfig
    market: MarketConfig
    split: SplitConfig


class TradingEnv(gymnasium.Env[NDArray[Any], Any]):
    """One account on a `Source`. Observation: all parts side by side, a Box of plus or minus `CLIP`.

    `actions="branches"` takes MultiDiscrete([3, 3, 3, 3]), one number a branch; `actions="flat"` the 81 combinations
    as one Discrete, for algorithms that know only that.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  declared so by gymnasium.Env

    def __init__(
        self,
        *,
        actions: Literal["branches", "flat"] = "branches",
        render_mode: None = None,
        **source: Unpack[Source],
    ) -> None:
        """Raises `ConfigError` unless exactly one of `data` and `tape` is given, and what reading them raises."""
        if actions not in ("branches", "flat"):
            raise ConfigError(f"actions must be 'branches' or 'flat', not {actions!r}")
        self._flat = actions == "flat"
        self._environment = _environment(1, source)
        self._begun = False
        self.observation_space = _observation_space(self._environment)
        self.action_space = (
            spaces.Discrete(int(np.prod(_SIZES))) if self._flat else spaces.MultiDiscrete(np.array(_SIZES))
        )
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Flat, dict[str, Any]]:
        """Start an episode at a random row; a seed makes this and all later episodes reproducible."""
        super().reset(seed=seed)
        if seed is None and not self._begun:
            seed = _fresh_seed(self.np_random)
        self._begun = True
        return _flatten(self._environment.reset(seed))[0], self._info()

    def step(self, action: Any) -> tuple[Flat, float, bool, bool, dict[str, Any]]:
        """One decision. `info` holds equity, position, cash and the step's reward in money."""
        branches = np.unravel_index(int(action), _SIZES) if self._flat else action
        unit = float(self._environment.reward_unit[0])
        result = self._environment.step(torch.as_tensor(np.asarray(branches, np.int64)).view(1, -1))
        money = float(result.reward[0])
        observation = _flatten(result.observation)[0]
        return observation, money / unit, bool(result.terminated[0]), bool(result.truncated[0]), self._info(money)

    def _info(self, money: float = 0.0) -> dict[str, Any]:
        state = self._environment.state
        return {
            "money": money,
            "equity": float(state.worth[0]),
            "position": int(state.account.position[0]),
            "cash": float(state.account.cash[0]),
        }


class TradingVectorEnv(VectorEnv[NDArray[Any], Any, Any]):
    """Many accounts on a `Source`, stepped at once in next-step autoreset; the spaces of `TradingEnv`, batched."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012  as in gymnasium's VectorEnv

    def __init__(
        self,
        num_envs: int,
        *,
        render_mode: None = None,
        **source: Unpack[Source],
    ) -> None:
        """As `TradingEnv`, for `num_envs` accounts."""
        self._environment = _environment(num_envs, source)
        self._begun = False
        self.num_envs = num_envs
        self.single_observation_space = _observation_space(self._environment)
        self.single_action_space = spaces.MultiDiscrete(np.array(_SIZES))
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Flat, dict[str, Any]]:
        """Start every account afresh; one seed serves all of them."""
        if isinstance(seed, list):
            raise ConfigError("the trading environment takes one seed for all accounts, not a list")
        super().reset(seed=seed)
        if seed is None and not self._begun:
            seed = _fresh_seed(self.np_random)
        self._begun = True
        return _flatten(self._environment.reset(seed)), {}

    def step(self, actions: Any) -> tuple[Flat, Any, Any, Any, dict[str, Any]]:
        """One decision of every account. `info` holds the rewards in money and the equities."""
        units = self._environment.reward_unit
        result: StepResult = self._environment.step(torch.as_tensor(np.asarray(actions, np.int64)))
        info = {"money": result.reward.numpy(), "equity": self._environment.state.worth.numpy().copy()}
        reward = (result.reward / units).numpy()
        return _flatten(result.observation), reward, result.terminated.numpy(), result.truncated.numpy(), info


def _environment(environments: int, source: Source) -> TradingEnvironment:
    from foxhunt.data.store import Dataset

    data, tape, part = source.get("data"), source.get("tape"), source.get("part", "train")
    if part not in SPLITS:
        raise ConfigError(f"part must be one of {', '.join(SPLITS)}, not {part!r}")
    if data is not None and tape is None:
        tape = load_tape(Dataset.open(data), source.get("symbols", ()), source.get("tape_config"))
    elif tape is None or data is not None:
        raise ConfigError("give either data=FOLDER, written by foxhunt data import, or tape=Tape")
    market = source.get("market") or MarketConfig()
    parts = split_tape(tape.to("cpu"), source.get("split") or SplitConfig())
    return TradingEnvironment(parts[part], market, environments, scaler=FeatureScaler.fit(parts["train"], market))


def _fresh_seed(random: np.random.Generator) -> int:
    """A seed nobody asked for, so that several unseeded environments do not play the same episodes."""
    return int(random.integers(np.iinfo(np.int64).max))


def _observation_space(environment: TradingEnvironment) -> spaces.Box:
    return spaces.Box(-CLIP, CLIP, (sum(environment.widths.values()),), np.float32)


def _flatten(observation: Observation) -> Flat:
    """[environments, width] parts side by side, in the order of `TradingEnvironment.widths`."""
    return torch.cat(list(observation.values()), 1).numpy()


gymnasium.register(
    IDENTIFIER,
    entry_point=f"{__name__}:{TradingEnv.__name__}",
    vector_entry_point=f"{__name__}:{TradingVectorEnv.__name__}",
)
