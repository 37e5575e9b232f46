"""What a back-test was run on, in words for people."""

from collections.abc import Mapping

from foxhunt.config import TrainConfig
from foxhunt.data.schema import Instrument
from foxhunt.evaluate.format import money, time_span
from foxhunt.market.tape import Tape


def market_facts(config: TrainConfig, tapes: Mapping[str, Tape]) -> list[tuple[str, str]]:
    """Names and values: data, time ranges of the splits, clock, account, fees and fill model."""
    market, instruments = config.market, next(iter(tapes.values())).instruments
    cash = f"{money(market.initial_cash)} {instruments[0].currency}"
    return [
        ("data", f"{config.data}: {', '.join(instrument.symbol for instrument in instruments)}"),
        *((name, f"{getattr(config.split, name)}: {_span(tape)}") for name, tape in tapes.items()),
        ("embargo", config.split.embargo),
        ("decisions", f"every {config.tape.every}, order latency {config.tape.latency}"),
        ("account", f"{cash} for each instrument and uninterrupted stretch, leverage {market.leverage:g}"),
        ("fees", fees(instruments, market.maker_bps, market.taker_bps)),
        ("fill model", f"queue {market.queue}, through {market.through}"),
    ]


def _span(tape: Tape) -> str:
    first, last = tape.segments[:, 0], tape.segments[:, 1] - 1
    span = time_span(int(tape.time[first].min()), int(tape.time[last].max()), tape.instruments[0].timezone)
    return f"{span}, {int((last - first).sum()):,} decisions, {len(first)} account{'s' * (len(first) > 1)}"


def fees(instruments: tuple[Instrument, ...], maker_bps: float | None, taker_bps: float | None) -> str:
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
