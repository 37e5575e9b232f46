"""A stretch of market that any number of policies can be sent through, side by side."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from foxhunt.config import MarketConfig
from foxhunt.evaluate.listener import Listener
from foxhunt.interface import Decision, Hold, Limits, Observation
from foxhunt.market.environment import TradingEnvironment
from foxhunt.market.fees import Terms, instrument_terms
from foxhunt.market.scaling import FeatureScaler
from foxhunt.market.state import StepEvents
from foxhunt.market.tape import Tape

Policy = Callable[[Observation], Decision]
"""Observation -> a decision for every environment. It may remember: each sweep wants a fresh one."""


class Entry(NamedTuple):
    """A policy that enters an arena, perhaps several times over."""

    name: str
    policy: Policy
    copies: int = 1
    listener: Listener | None = None
    """Hears what the heads of the policy's network say; None for policies without."""


class Played(NamedTuple):
    """One step of a sweep."""

    events: StepEvents
    hold: Hold


class Totals(NamedTuple):
    """What a sweep came to, copy by copy."""

    profit: Float[Tensor, " copies"]
    """After fees, money."""
    traded: Float[Tensor, " copies"]
    """Notional of all fills, money."""


@dataclass(frozen=True)
class Arena:
    """One split of a tape with the account's rules; every segment is an account of its own.

    A sweep goes through each segment once, from its first decision to its last. Several `copies` of all segments go
    through side by side: environment e is segment e % segments of copy e // segments.
    """

    tape: Tape
    market: MarketConfig
    scaler: FeatureScaler

    @property
    def segments(self) -> int:
        """Accounts in one copy."""
        return len(self.tape.segments)

    def environment(self, copies: int = 1) -> TradingEnvironment:
        """A new environment that sweeps `copies` of every segment."""
        tape = replace(self.tape, segments=self.tape.segments.repeat(copies, 1))
        return TradingEnvironment(tape, self.market, scaler=self.scaler, sweep=True)

    def totals(self, policy: Policy, copies: int) -> Totals:
        """Send `copies` through without keeping a record of the steps."""
        environment = self.environment(copies)
        terms = instrument_terms(self.tape.instruments, self.market, self.tape.device)
        terms = terms.take(self.tape.segment_instruments().repeat(copies))
        traded = sum(_traded(events, terms) for events, _ in sweep(environment, policy))
        assert isinstance(traded, Tensor)
        profit = environment.state.worth - self.market.initial_cash
        return Totals(*(money.view(copies, -1).sum(1).cpu() for money in (profit, traded)))

    def imbalance(self) -> Float[Tensor, " rows"]:
        """Shortest-horizon order-flow imbalance of every row inside the segments, as observations show it."""
        return self.scaler.transform(self.tape)[self.tape.inside(), -3]


def side_by_side(entries: Sequence[Entry], segments: int) -> Policy:
    """One policy that is each entry's in its own copies of the segments, in the order of the entries."""
    sizes = [entry.copies * segments for entry in entries]

    def act(observation: Observation) -> Decision:
        parts = {name: torch.split(tensor, sizes) for name, tensor in observation.items()}
        decisions = [entry.policy({name: part[k] for name, part in parts.items()}) for k, entry in enumerate(entries)]
        return Decision(torch.cat([decision.action for decision in decisions]), _join_limits(decisions))

    return act


def _join_limits(decisions: Sequence[Decision]) -> Limits | None:
    """Limits of several policies side by side; who sets none gets one that never binds."""
    fields: list[Tensor | None] = []
    for place, name in enumerate(Limits._fields):
        given = [None if decision.limits is None else decision.limits[place] for decision in decisions]
        if all(limit is None for limit in given):
            fields.append(None)
            continue
        free = 1.0 if name == "risk" else torch.inf
        sizes = [decision.action[:, 0].float() for decision in decisions]
        fields.append(
            torch.cat([torch.full_like(s, free) if g is None else g for g, s in zip(given, sizes, strict=True)])
        )
    return None if all(field is None for field in fields) else Limits(*fields)


def sweep(environment: TradingEnvironment, policy: Policy) -> Iterator[Played]:
    """Play every segment to its end, as many steps as the longest has; yields what each step did and might have."""
    segments = environment.tape.segments
    with torch.no_grad():
        observation = environment.reset(0)
        for _ in range(int((segments[:, 1] - segments[:, 0]).max()) - 1):
            result = environment.step(*policy(observation))
            observation = result.observation
            assert environment.events is not None
            assert result.hold is not None
            yield Played(environment.events, result.hold)


def _traded(events: StepEvents, terms: Terms) -> Float[Tensor, " environments"]:
    """Notional of a step's fills."""
    lots = (events.early_lots * events.early_tick).abs() + (events.maker_lots * events.maker_tick).abs()
    levels = (events.taker_lots * events.taker_tick).abs() + (events.liquidation_lots * events.liquidation_tick).abs()
    return (lots + levels.sum(1)) * terms.tick_value
