"""An agent decides on the past alone, whatever its heads do; and its decisions do not depend on being listened to."""

from dataclasses import replace

import polars as pl
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from foxhunt.config import ActingConfig
from foxhunt.evaluate.arena import Arena, Entry
from foxhunt.evaluate.listener import Listener
from foxhunt.evaluate.recorder import record
from foxhunt.market.scaling import FeatureScaler
from foxhunt.nn.network import Network
from foxhunt.presets import FULL
from foxhunt.rl.act import GreedyPolicy

from ..laws.test_causality import CONFIGS, MARKET, pair

SMALL = replace(FULL, hidden1=16, hidden2=16, head_hidden=8, atoms=11, history=4, plan_horizon=5)
EVERYTHING = ActingConfig(
    values="quantile", cvar=0.5, risk_budget=True, selectivity=True, selectivity_threshold=0.4, trade_plan=True
)


def outspoken(arena: Arena) -> Network:
    """A network with random weights in every head, also in those that begin at zero."""
    environment = arena.environment()
    network = Network(environment.widths, environment.branches, SMALL)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.3, generator=generator)
    return network


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 100_000), config=CONFIGS)
def test_decisions_know_only_the_past(seed: int, config: object) -> None:
    """Everything said, chosen and allowed at rows up to t is the same, whatever the market does from t on."""
    tape, twin, row = pair(seed, config)  # type: ignore[arg-type]
    first, stop = next(s for s in tape.segments.tolist() if s[1] > row or s[1] == tape.rows)
    scaler, tables = FeatureScaler.fit(tape, MARKET), []
    network = None
    for source in (tape, twin):
        segments = torch.tensor([[first, min(stop, source.rows)]])
        arena = Arena(replace(source, segments=segments), MARKET, scaler)
        network = network or outspoken(arena)
        listener = Listener()
        entry = Entry("agent", GreedyPolicy(network, EVERYTHING, listener), listener=listener)
        ((run,),) = record(arena, [entry])
        tables.append(run.decisions.filter(pl.col("row") <= row))
    # What a decision led to by the end of its row may differ for the last one; all that it was and said may not.
    ends = ["until", "position_lots", "position", "cash", "equity", "reward", "fees", "liquidated", "hold_move"]
    before, after = (table.drop(ends) for table in tables)
    height = min(before.height, after.height)
    assert height >= row - first  # one more where both tapes go on
    assert_frame_equal(before.head(height), after.head(height))


def test_listening_changes_nothing(arenas: dict[str, Arena]) -> None:
    arena = arenas["test"]
    network, listener = outspoken(arena), Listener()
    alone = Entry("agent", GreedyPolicy(network, EVERYTHING))
    heard = Entry("agent", GreedyPolicy(network, EVERYTHING, listener), listener=listener)
    (one,), (two,) = record(arena, [alone, heard])
    said = [
        name for name in two.decisions.columns if two.decisions[name].null_count() < one.decisions[name].null_count()
    ]
    assert {"wanted", "selectivity", "risk_budget", "plan_stop", "forecast_error", "best_value"} <= set(said)
    assert_frame_equal(one.decisions.drop(said), two.decisions.drop(said))
    assert_frame_equal(one.fills, two.fills)


def test_statements_explain_what_was_done(arenas: dict[str, Arena]) -> None:
    """A veto, a bracket or the wish itself: one of them is the reason for every direction taken."""
    arena = arenas["test"]
    listener = Listener()
    policy = GreedyPolicy(outspoken(arena), EVERYTHING, listener)
    ((run,),) = record(arena, [Entry("agent", policy, listener=listener)])
    steps = run.decisions.with_columns(
        vetoed=pl.col("selectivity") < EVERYTHING.selectivity_threshold, closed=pl.col("bracket_exit").is_not_null()
    )
    assert steps["vetoed"].n_unique() == 2
    stopped = pl.col("vetoed") | pl.col("closed")
    expected = pl.when(stopped).then(1).otherwise(pl.col("wanted"))
    assert steps.select((pl.col("direction") == expected).all()).item()
    assert steps.select((pl.col("allowed_lots") == (pl.col("risk_budget") * pl.col("cap_lots")).floor()).all()).item()
