"""Judge a trained agent on a split of its data, beside baselines that need no learning."""

import json
import platform
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from math import isinf
from pathlib import Path
from typing import Final, Literal, get_args

import torch

from foxhunt import __version__
from foxhunt.config import require, to_json
from foxhunt.data.schema import Instrument
from foxhunt.data.store import Dataset
from foxhunt.errors import CheckpointError
from foxhunt.evaluate import baselines
from foxhunt.evaluate.arena import Arena, Entry
from foxhunt.evaluate.format import money, number
from foxhunt.evaluate.ledger import write_ledger
from foxhunt.evaluate.output import SUMMARY, check_output, whole_folder, write_text
from foxhunt.evaluate.recorder import ACTIONS, record
from foxhunt.evaluate.report import Context, render, time_span
from foxhunt.evaluate.series import clock, one_currency
from foxhunt.evaluate.summary import AGENT, FLAT, Contender, Summary, mean_profit, summarise
from foxhunt.market.scaling import FeatureScaler
from foxhunt.market.split import SPLITS, split_tape
from foxhunt.market.tape import Tape, load_tape
from foxhunt.rl.agent import Agent, load_agent
from foxhunt.rl.checkpoint import Which
from foxhunt.rl.task import _digest as tape_digest

Split = Literal["train", "validate", "test"]

FITTED_ON: Final[dict[Split, Split]] = {"test": "validate", "validate": "train", "train": "validate"}
"""Split judged -> split that the OFI rule is fitted on: never the one it is judged on."""

SEEDS: Final = 8
"""Runs of random trading."""


@dataclass(frozen=True)
class Result:
    """A finished back-test."""

    summary: Summary
    folder: Path
    """Holds summary.json and the ledger, and the report unless it was asked for elsewhere."""
    report: Path


def backtest_run(
    run: Path | str,
    *,
    split: Split = "test",
    checkpoint: Which = "best",
    data: Path | str | None = None,
    out: Path | str | None = None,
    report: Path | str | None = None,
    seeds: int = SEEDS,
    device: str = "cpu",
    progress: Callable[[str], None] = lambda stage: None,
) -> Result:
    """Back-test a run's agent and the baselines on one split, and write report, ledger and summary.

    Args:
        run: folder written by `foxhunt train` on market data.
        split: which time to judge on; only test is held out.
        checkpoint: `best` by validation, or `last`.
        data: where the run's dataset lies now; None where the run says.
        out: result folder, an earlier back-test there is replaced; None for RUN/backtest-SPLIT.
        report: file of the HTML page; None for report.html in the result folder.
        seeds: runs of random trading, whose mean is shown.
        device: torch device of the sweep.
        progress: told what happens next, in a few words.

    Raises `CheckpointError`, `DataError` or `ConfigError`, each in one line, and then writes nothing.
    """
    require(split in SPLITS, f"unknown split {split!r}; choose from {', '.join(SPLITS)}")
    require(
        checkpoint in get_args(Which), f"unknown checkpoint {checkpoint!r}; choose from {', '.join(get_args(Which))}"
    )
    require(seeds >= 1, "seeds must be at least 1")
    run = Path(run)
    folder = Path(out) if out else run / f"backtest-{split}"
    page = Path(report) if report else None
    check_output(folder, page)
    progress("loading the agent and the tape")
    agent = load_agent(run, checkpoint, device)
    arenas = load_arenas(agent, run, Path(data) if data else agent.config.data, device)
    currency = one_currency(arenas[split].tape.instruments)
    contenders = contend(agent, arenas, split, f"{checkpoint} checkpoint of step {agent.step:,}", seeds, progress)
    progress("measuring")
    first = contenders[0].runs[0]
    summary = summarise(contenders, split, clock(arenas[split].tape.instruments, first.decisions))
    context = _context(run, agent, arenas, split, checkpoint, seeds, currency)
    profits = [(contender.name, mean_profit(contender, summary.clock)) for contender in contenders]
    progress("writing report and ledger")
    html = render(summary, first, profits, context)
    with whole_folder(folder) as fresh:
        write_text(fresh / SUMMARY, json.dumps(summary.to_json() | context.to_json(), indent=1, allow_nan=False) + "\n")
        write_ledger(fresh / "ledger", contenders)
        if page is None:
            write_text(fresh / "report.html", html)
    if page is not None:
        write_text(page, html)
    return Result(summary, folder, page or folder / "report.html")


def load_arenas(agent: Agent, run: Path, data: Path | None, device: str) -> dict[Split, Arena]:
    """Every split of the agent's data, scaled as in training.

    Raises `CheckpointError` when the agent was not trained on market data, or the data has changed since: the splits
    of other data may overlap what the agent has seen.
    """
    if data is None or "scaler" not in agent.fitted:
        raise CheckpointError(f"{run} was trained on {agent.config.env}, not on market data; nothing to back-test")
    tape = load_tape(Dataset.open(data), agent.config.symbols, agent.config.tape)
    if tape_digest(tape) != agent.fitted["tape"]:
        raise CheckpointError(f"{data} is not the data that {run} was trained on; restore it, or train again")
    scaler = FeatureScaler.from_state_dict(agent.fitted["scaler"])
    parts = split_tape(tape.to(device), agent.config.split)
    return {name: Arena(parts[name], agent.config.market, scaler) for name in get_args(Split)}


def contend(
    agent: Agent, arenas: dict[Split, Arena], split: Split, note: str, seeds: int, progress: Callable[[str], None]
) -> list[Contender]:
    """Send the agent and every baseline through the same split; the agent comes first."""
    arena = arenas[split]
    progress("back-testing the agent")
    ((own,),) = record(arena, [Entry(AGENT, agent.policy)])
    progress("fitting the baselines")
    matched = baselines.match_turnover(arena, own, seeds)
    rule = baselines.fit_ofi_rule(arenas[FITTED_ON[split]])
    progress("back-testing the baselines")
    entries = {
        "never trades": Entry(FLAT, baselines.flat()),
        "full cap, bought with crossing orders at the start": Entry("buy and hold", baselines.buy_and_hold()),
        _random_note(matched, seeds): Entry("random", matched.policy, seeds),
        _rule_note(rule, FITTED_ON[split]): Entry("OFI rule", rule.policy(arena)),
    }
    runs = record(arena, list(entries.values()))
    return [
        Contender(AGENT, (own,), f"greedy, {note}"),
        *(Contender(entry.name, run, how) for (how, entry), run in zip(entries.items(), runs, strict=True)),
    ]


def _random_note(matched: baselines.Matched, seeds: int) -> str:
    if matched.ratio == 0:
        return "the agent never traded, so this does not either"
    how = f"mean of {seeds} seed{'s' * (seeds > 1)}, {number(matched.ratio)} of the agent's turnover"
    return how if abs(matched.ratio - 1) <= baselines.TOLERANCE else f"{how} (no closer match)"


def _rule_note(rule: baselines.FittedRule, split: Split) -> str:
    if isinf(rule.threshold):
        return f"stays flat: no threshold on imbalance paid for its fees on {split}"
    return (
        f"full long or short when scaled imbalance reaches {number(rule.threshold)}, by {ACTIONS['order'][rule.order]} "
        f"orders; fitted on {split} (profit there {money(rule.profit)})"
    )


def _context(
    run: Path, agent: Agent, arenas: dict[Split, Arena], split: Split, checkpoint: Which, seeds: int, currency: str
) -> Context:
    config, tape = agent.config, arenas[split].tape
    market = config.market
    ranges = [(name, f"{getattr(config.split, name)}: {_span(arenas[name].tape)}") for name in get_args(Split)]
    facts: list[tuple[str, str]] = [
        ("data", f"{config.data}: {', '.join(instrument.symbol for instrument in tape.instruments)}"),
        *ranges,
        ("embargo", config.split.embargo),
        ("decisions", f"every {config.tape.every}, order latency {config.tape.latency}"),
        ("account", f"{money(market.initial_cash)} {currency} an instrument and period, leverage {market.leverage:g}"),
        ("fees", _fees(tape.instruments, market.maker_bps, market.taker_bps)),
        ("fill model", f"queue {market.queue}, through {market.through}"),
        ("agent", f"{checkpoint} checkpoint of step {agent.step:,} of {config.steps:,}, trunk {config.network.trunk}"),
        ("seeds", f"training {config.seed}, random trading 0 to {seeds - 1}, bootstrap 0"),
        ("versions", f"foxhunt {__version__}, torch {torch.__version__}, Python {platform.python_version()}"),
    ]
    command = ["foxhunt", "backtest", str(run), "--split", split, "--checkpoint", checkpoint, "--seeds", str(seeds)]
    return Context(f"Back-test of {run}", tuple(facts), to_json(config), shlex.join(command))


def _span(tape: Tape) -> str:
    first, last = tape.segments[:, 0], tape.segments[:, 1] - 1
    span = time_span(int(tape.time[first].min()), int(tape.time[last].max()), tape.instruments[0].timezone)
    return f"{span}, {int((last - first).sum()):,} decisions, {len(first)} account{'s' * (len(first) > 1)}"


def _fees(instruments: tuple[Instrument, ...], maker_bps: float | None, taker_bps: float | None) -> str:
    """What trading costs, said once where all instruments cost the same."""
    texts = {i.symbol: _fee(i, maker_bps, taker_bps) for i in instruments}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{symbol}: {text}" for symbol, text in texts.items())


def _fee(instrument: Instrument, maker_bps: float | None, taker_bps: float | None) -> str:
    """An override in basis points replaces the instrument's fee, the one for each lot included."""
    sides = []
    for side, override in (("maker", maker_bps), ("taker", taker_bps)):
        own, per_lot = getattr(instrument, f"{side}_bps"), getattr(instrument, f"{side}_per_lot")
        text = f"{side} {own if override is None else override:g} bps"
        sides.append(text + (f" + {per_lot:g} a lot" if per_lot and override is None else ""))
    tax = [f"sells {instrument.sell_bps:g} bps more"] if instrument.sell_bps else []
    return ", ".join(sides + tax)
