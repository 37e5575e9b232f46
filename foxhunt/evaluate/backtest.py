"""Judge a trained agent on a split of its data, beside baselines that need no learning."""

import json
import platform
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isinf
from pathlib import Path
from typing import Final, Literal, get_args

import torch

from foxhunt import __version__
from foxhunt.config import ActingConfig, require, to_json
from foxhunt.data.store import Dataset
from foxhunt.errors import CheckpointError
from foxhunt.evaluate import baselines
from foxhunt.evaluate.acting import AS_TRAINED, ActingChanges, describe, switched_heads
from foxhunt.evaluate.arena import Arena, Entry
from foxhunt.evaluate.facts import market_facts
from foxhunt.evaluate.format import money, number
from foxhunt.evaluate.heads import Terms, judge_heads
from foxhunt.evaluate.ledger import write_ledger
from foxhunt.evaluate.listener import Listener
from foxhunt.evaluate.output import SUMMARY, check_output, whole_folder, write_text
from foxhunt.evaluate.recorder import ACTIONS, record
from foxhunt.evaluate.report import Context, render
from foxhunt.evaluate.series import clock, one_currency
from foxhunt.evaluate.summary import AGENT, FLAT, Contender, Summary, mean_profit, summarise
from foxhunt.evaluate.traces import training_slots
from foxhunt.market.scaling import FeatureScaler
from foxhunt.market.split import SPLITS, split_tape
from foxhunt.market.tape import load_tape
from foxhunt.rl.act import GreedyPolicy
from foxhunt.rl.agent import Agent, check_device, load_agent
from foxhunt.rl.checkpoint import Which
from foxhunt.rl.task import tape_digest

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
    acting: ActingChanges = AS_TRAINED,
    variations: bool = True,
    trials: int = 1,
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
        acting: what to change in how the agent acts; nothing changes what it has learned.
        variations: send the agent through again with each of its heads switched.
        trials: agents that were tried on this data, this one included; deflates the Sharpe ratio.
        device: torch device of the sweep.
        progress: told what happens next, in a few words.

    Raises `CheckpointError`, `DataError` or `ConfigError`, each in one line, and then writes nothing.
    """
    require(split in SPLITS, f"unknown split {split!r}; choose from {', '.join(SPLITS)}")
    require(checkpoint in get_args(Which), f"unknown checkpoint {checkpoint!r}; choose best or last")
    require(seeds >= 1, "seeds must be at least 1")
    require(trials >= 1, "trials must be at least 1")
    check_device(device)
    run = Path(run)
    folder = Path(out) if out else run / f"backtest-{split}"
    page = Path(report) if report else None
    check_output(folder, page)
    progress("loading the agent and the tape")
    trained = load_agent(run, checkpoint, device)
    changed = acting.apply(trained.config.acting)
    agent = replace(trained, config=replace(trained.config, acting=changed))
    arenas = load_arenas(agent, run, Path(data) if data else agent.config.data, device)
    one_currency(arenas[split].tape.instruments)
    with _one_thread():
        contenders = contend(agent, arenas, split, f"{checkpoint} checkpoint of step {agent.step:,}", seeds, progress)
        switched = vary(agent, arenas[split], progress) if variations else []
    progress("measuring")
    first = contenders[0].runs[0]
    summary = summarise(
        contenders,
        split,
        clock(arenas[split].tape.instruments, first.decisions),
        variations=switched,
        trials=trials,
        heads=judge_heads(first, Terms.of(agent.network, agent.config)),
    )
    chosen = f"{checkpoint} checkpoint of step {agent.step:,} of {agent.config.steps:,}"
    context = Context(
        title=f"Back-test of {run}",
        facts=(
            *market_facts(agent.config, {name: arena.tape for name, arena in arenas.items()}),
            ("agent", f"{chosen}, trunk {agent.config.network.trunk}"),
            ("acting", describe(changed) + ("" if changed == trained.config.acting else "; trained otherwise")),
            ("seeds", f"training {agent.config.seed}, random trading 0 to {seeds - 1}, bootstrap 0"),
            ("versions", f"foxhunt {__version__}, torch {torch.__version__}, Python {platform.python_version()}"),
        ),
        config=to_json(agent.config),
        reproduce=_command(
            run,
            split=split,
            checkpoint=checkpoint,
            seeds=seeds,
            data=data,
            out=out,
            **dict(acting.flags()),
            variations=variations,
            trials=trials if trials > 1 else None,
        ),
    )
    profits = [(contender.name, mean_profit(contender, summary.clock)) for contender in contenders]
    progress("writing report and ledger")
    html = render(summary, first, profits, context, training_slots(run, agent.step))
    with whole_folder(folder) as fresh:
        write_text(fresh / SUMMARY, json.dumps(summary.to_json() | context.to_json(), indent=1, allow_nan=False) + "\n")
        write_ledger(fresh / "ledger", [*contenders, *switched])
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
    ((own,),) = record(arena, [_listened(AGENT, agent, agent.config.acting)])
    progress("fitting the baselines")
    matched = baselines.match_turnover(arena, own, seeds)
    rule = baselines.fit_ofi_rule(arenas[FITTED_ON[split]])
    progress("back-testing the baselines")
    entries = (
        (Entry(FLAT, baselines.flat()), "never trades"),
        (Entry("buy and hold", baselines.buy_and_hold()), _hold_note(arena.segments)),
        (Entry("TWAP", baselines.twap(arena)), "full cap, bought evenly over each account's time by crossing orders"),
        (Entry("random", matched.policy, seeds), _random_note(matched, seeds)),
        (Entry("OFI rule", rule.policy(arena)), _rule_note(rule, FITTED_ON[split])),
    )
    runs = record(arena, [entry for entry, _ in entries])
    return [
        Contender(AGENT, (own,), f"greedy, {note}"),
        *(Contender(entry.name, run, how) for (entry, how), run in zip(entries, runs, strict=True)),
    ]


def vary(agent: Agent, arena: Arena, progress: Callable[[str], None]) -> list[Contender]:
    """Send the agent through once more for each head that could act otherwise, with that head switched."""
    changed = switched_heads(agent.config.acting, agent.config.network)
    if not changed:
        return []
    progress("switching heads")
    entries = [_listened(f"{AGENT} {name}", agent, acting) for name, acting in changed.items()]
    runs = record(arena, entries)
    return [
        Contender(entry.name, run, describe(acting))
        for entry, run, acting in zip(entries, runs, changed.values(), strict=True)
    ]


def _listened(name: str, agent: Agent, acting: ActingConfig) -> Entry:
    """The agent acting as told, with somebody who takes down what its heads say."""
    listener = Listener()
    return Entry(name, GreedyPolicy(agent.network, acting, listener), listener=listener)


def _hold_note(accounts: int) -> str:
    when = "at the start" if accounts == 1 else f"at the start of each of the {accounts} accounts"
    return f"full cap, bought with crossing orders {when}"


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


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread for the small tensors of a sweep: on a busy machine two spend most of their time waiting."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _command(run: Path, **options: object) -> str:
    """The command line that makes the same back-test again."""
    words = ["foxhunt", "backtest", str(run)]
    for name, value in options.items():
        if isinstance(value, bool):
            words += [] if value else [f"--no-{name}"]
        elif value is not None:
            words += [f"--{name}", str(value)]
    return shlex.join(words)
