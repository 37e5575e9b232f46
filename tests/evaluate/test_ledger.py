"""The ledger holds every row, reconciles with the account, and is written whole or not at all."""

from pathlib import Path

import polars as pl
import pytest

from foxhunt.errors import ConfigError
from foxhunt.evaluate.ledger import write_ledger
from foxhunt.evaluate.output import check_output, whole_folder, write_text
from foxhunt.evaluate.summary import Contender

from .market import random_backtest


def test_ledger_reconciles_with_the_account(tmp_path: Path) -> None:
    runs = (random_backtest(symbols=("ABC", "XYZ"), seed=1), random_backtest(symbols=("ABC", "XYZ"), seed=2))
    write_ledger(tmp_path / "ledger", [Contender("agent", runs[:1]), Contender("random", runs)])
    decisions, orders, fills = (
        pl.read_parquet(tmp_path / "ledger" / f"{name}.parquet") for name in ("decisions", "orders", "fills")
    )
    key = ["policy", "seed", "segment"]
    assert decisions.select(key).unique().height == 6
    assert orders.height == fills.height == runs[0].fills.height * 2 + runs[1].fills.height
    sign = pl.when(pl.col("side") == "buy").then(1).otherwise(-1)
    bought = fills.group_by(key).agg(
        lots=(sign * pl.col("quantity_lots")).sum(),
        paid=(sign * pl.col("notional")).sum() + pl.col("fee").sum(),
    )
    ends = decisions.sort("step").group_by(key).agg(
        pl.col("position_lots", "cash", "equity").last(), pl.col("reward", "fees").sum()
    )  # fmt: skip
    for row in ends.join(bought, on=key).iter_rows(named=True):
        assert row["position_lots"] == row["lots"]
        assert row["cash"] == pytest.approx(1000 - row["paid"])
        assert row["reward"] == pytest.approx(row["equity"] - 1000)
    assert decisions["fees"].sum() == pytest.approx(fills["fee"].sum())


def write(out: Path, text: str, fail: Exception | None = None) -> None:
    with whole_folder(out) as folder:
        (folder / "summary.json").write_text(text)
        if fail:
            raise fail


def test_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "result"
    with pytest.raises(ZeroDivisionError):
        write(out, "half", fail=ZeroDivisionError())
    assert list(tmp_path.iterdir()) == []
    write(out, "first")
    write(out, "second")
    assert [p.name for p in tmp_path.iterdir()] == ["result"]
    assert (out / "summary.json").read_text() == "second"


def test_failed_rewrite_keeps_the_earlier_result(tmp_path: Path) -> None:
    out = tmp_path / "result"
    write(out, "first")
    with pytest.raises(ConfigError, match=r"cannot write .*result: No space left on device"):
        write(out, "second", fail=OSError(28, "No space left on device"))
    assert (out / "summary.json").read_text() == "first"
    assert [p.name for p in tmp_path.iterdir()] == ["result"]


def test_foreign_folders_and_unwritable_places_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match=r"mine exists and is not an earlier back-test"):
        check_output(tmp_path / "mine")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="not a folder that can be written"):
        check_output(tmp_path / "file" / "deeper")
    with pytest.raises(ConfigError, match=r"report.html"):
        check_output(tmp_path / "new", tmp_path / "file" / "report.html")
    with pytest.raises(ConfigError, match="cannot write"):
        write_text(tmp_path / "file" / "report.html", "")
    check_output(tmp_path / "new" / "deeper")
