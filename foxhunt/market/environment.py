"""The trading environment: thousands of accounts replaying one tape at once, on any device."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from foxhunt.config import MarketConfig
from foxhunt.errors import ConfigError
from foxhunt.interface import Hold, Limits, Observation, StepResult
from foxhunt.market.account import Account
from foxhunt.market.actions import BRANCHES, Order, Rules
from foxhunt.market.brackets import Bracket
from foxhunt.market.episodes import Starts, draw, sweep_starts, training_starts
from foxhunt.market.fees import taker_fee
from foxhunt.market.portfolio import PORTFOLIO_NAMES, portfolio
from foxhunt.market.scaling import FeatureScaler, regime
from foxhunt.market.state import STATE_NAMES, MarketState, StepEvents
from foxhunt.market.step import advance
from foxhunt.market.tape import Tape


class TradingEnvironment:
    """Vector environment over a tape; satisfies `foxhunt.interface.VectorEnvironment`.

    Training: episodes of `market.episode_steps` start at random rows; a new one follows each in next-step autoreset.
    Sweep: one environment a segment, played once from its first row to its last; then the environment stands still
    (reward 0, flags false, `finished`). Nothing in `step` waits for the device or changes a shape.
    """

    branches = BRANCHES

    def __init__(
        self,
        tape: Tape,
        market: MarketConfig,
        environments: int | None = None,
        *,
        scaler: FeatureScaler | None = None,
        seed: int = 0,
        sweep: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        """Raises `ConfigError` when the tape holds no step, or the cash does not buy the smallest order.

        `scaler` must be fitted on training data; without one it is fitted on this tape's segments.
        `environments` is required for training and follows from the tape in a sweep.
        """
        tape = tape if device is None else tape.to(device)
        if not len(tape.segments):
            raise ConfigError("the tape holds no segment to trade on; select a longer range")
        if sweep and environments not in (None, len(tape.segments)):
            raise ConfigError(f"a sweep has one environment a segment, {len(tape.segments)} here, not {environments}")
        self.environments = len(tape.segments) if sweep else _positive(environments)
        self.tape, self.market, self.sweep = tape, market, sweep
        self.device = tape.device
        self.scaler = scaler or FeatureScaler.fit(tape, market)
        self.starts: Starts = (sweep_starts if sweep else training_starts)(tape, market)
        self._rules = Rules.of(tape.instruments, market, self.device)
        self._features = self.scaler.transform(tape)
        self._reward_units = self.scaler.reward_units(tape)
        self._regime = regime(tape)
        self.widths = {
            "market": tape.market.shape[1],
            "ofi": tape.ofi.shape[1],
            "ofi3": tape.ofi3.shape[1],
            "portfolio": len(PORTFOLIO_NAMES),
            "regime": self._regime.shape[1],
        }
        self._index = torch.arange(self.environments, device=self.device)
        self._seed = torch.tensor(seed, device=self.device)
        self.events: StepEvents | None = None
        """What the last step did; None before the first step."""
        self._state = MarketState.of([v.clone() for v in self._begin(torch.zeros_like(self._index)).tensors()])

    @property
    def state(self) -> MarketState:
        """Accounts, orders and places on the tape; written in place by `step`."""
        return self._state

    @property
    def finished(self) -> Tensor:
        """Environments whose episode has ended [environments]; in a sweep they stay so."""
        return self._state.done

    @property
    def reward_unit(self) -> Float[Tensor, " environments"]:
        """Money by which a learner divides this step's rewards."""
        return self._reward_units.index_select(0, self.tape.instrument.index_select(0, self._state.row))

    def reset(self, seed: int | None = None) -> Observation:
        """Start every environment afresh; with a seed, reproducibly, without one with new episodes."""
        if seed is not None:
            self._seed.fill_(seed)
            self._state.episode.zero_()
        self._write(self._begin(self._state.episode))
        self.events = None
        return self._observe()

    def step(self, action: Int[Tensor, "environments branches"], limits: Limits | None = None) -> StepResult:
        """One decision of every environment; actions are int64 in 0..2 for each branch. Reward is money, float64."""
        outcome = advance(self.tape, self.market, self._rules, self._state, action, limits, self.reward_unit)
        hold = self._hold(outcome.events)
        state = outcome.state
        if not self.sweep:
            state = self._start_anew(self._state.done, state)
        self._write(state)
        self.events = outcome.events
        return StepResult(self._observe(), outcome.reward, outcome.terminated, outcome.truncated, hold)

    def state_dict(self) -> dict[str, Any]:
        """State of every environment; `load_state_dict` goes on from it bit for bit."""
        return {
            "seed": self._seed.clone(),
            **{name: value.clone() for name, value in zip(STATE_NAMES, self._state.tensors(), strict=True)},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state from an environment of the same tape and size; raises `ConfigError` on another size."""
        for name, value in zip(STATE_NAMES, self._state.tensors(), strict=True):
            if state[name].shape != value.shape:
                raise ConfigError(
                    f"environment state {name} has shape {list(state[name].shape)}, expected {list(value.shape)}; "
                    "resume with the same number of environments and book levels"
                )
        self._seed.copy_(state["seed"])
        for name, value in zip(STATE_NAMES, self._state.tensors(), strict=True):
            value.copy_(state[name])
        self.events = None

    def _begin(self, episode: Tensor) -> MarketState:
        """First state of episode number `episode` of every environment."""
        starts = self.starts
        if not self.sweep:
            chosen = draw(self._seed, self._index, episode, len(starts.row))
            starts = Starts(*(table.index_select(0, chosen) for table in starts))
        zero = torch.zeros_like(starts.row)
        cash = torch.full_like(zero, self.market.initial_cash, dtype=torch.float64)
        return MarketState(
            account=Account(zero, cash, torch.zeros_like(cash)),
            order=Order(*[zero] * len(Order._fields)),
            bracket=Bracket(zero, zero, *[torch.zeros_like(cash)] * 3),
            taken=zero.unsqueeze(1).expand(-1, 2 * self.tape.levels + 1),
            row=starts.row,
            last=starts.last,
            cap=starts.cap,
            worth=cash,
            done=torch.zeros_like(zero, dtype=torch.bool),
            episode=episode + 1,
        )

    def _observe(self) -> Observation:
        row, state = self._state.row, self._state
        instrument = self.tape.instrument.index_select(0, row)
        widths = [self.widths[name] for name in ("market", "ofi", "ofi3")]
        # Contiguous, as a resumed run loads them: products of strided views may round otherwise.
        features = torch.split(self._features.index_select(0, row), widths, 1)
        market, ofi, ofi3 = (part.contiguous() for part in features)
        return {
            "market": market,
            "ofi": ofi,
            "ofi3": ofi3,
            "portfolio": portfolio(
                state,
                self.tape.touch.index_select(0, row),
                self._reward_units.index_select(0, instrument),
                max(self.market.patience),
            ),
            "regime": self._regime.index_select(0, row),
        }

    def _hold(self, events: StepEvents) -> Hold:
        """What the full cap would have gained over the step just played, and cost to enter and leave."""
        touch = self.tape.touch.index_select(0, events.row)
        terms = self._rules.terms_of(self.tape.instrument.index_select(0, events.row))
        cap = self._state.cap * events.active
        move = cap * (events.half_ticks - touch.sum(1)) * (terms.tick_value * 0.5)
        spread = cap * (touch[:, 1] - touch[:, 0]) * terms.tick_value
        fees = taker_fee(terms, cap, cap * touch[:, 1]) + taker_fee(terms, -cap, -cap * touch[:, 0])
        return Hold(move, spread + fees)

    def _write(self, state: MarketState) -> None:
        """Store a state in the tensors that a captured graph reads."""
        torch._foreach_copy_(self._state.tensors(), state.tensors())

    def _start_anew(self, where: Bool[Tensor, " environments"], state: MarketState) -> MarketState:
        """The state with new episodes where the mask is true."""
        started = self._begin(state.episode).tensors()
        return MarketState.of(
            [
                torch.where(where if new.ndim == 1 else where.unsqueeze(1), new, old)
                for new, old in zip(started, state.tensors(), strict=True)
            ]
        )


def _positive(environments: int | None) -> int:
    if environments is None or environments < 1:
        raise ConfigError(f"environments must be at least 1 outside of a sweep, not {environments}")
    return environments
