"""The dataset folder: what is written comes back, and damage is named."""

import json
from pathlib import Path

import polars as pl
import pytest

from foxhunt.data.imported import Count, Imported, merge
from foxhunt.data.schema import BOOK_COLUMNS, Instrument
from foxhunt.data.store import Dataset, write_dataset
from foxhunt.errors import DataError


def trades(symbol: str, stamps: list[int]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "ts_event": stamps,
            "instrument": [symbol] * len(stamps),
            "price": [10_000_000_000 + stamp for stamp in stamps],
            "size": range(1, len(stamps) + 1),
            "side": ["B"] * len(stamps),
        }
    )


def imported(*parts: pl.DataFrame) -> Imported:
    frame = pl.concat(parts)
    symbols = frame["instrument"].unique().to_list()
    return Imported(
        instruments={s: Instrument(s, "0.01", sessions=(("09:30", "11:30"),)) for s in symbols},
        frames={"trades": frame},
        sources=["somewhere.csv"],
        notes=["a note"],
    )


def test_rows_come_back_by_instrument_in_order_of_time(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "d", imported(trades("B", [30, 10, 20, 10]), trades("A", [5])))
    b = dataset.frame("trades", "B")
    assert b["ts_event"].to_list() == [10, 10, 20, 30]
    assert b["size"].to_list() == [2, 4, 3, 1], "rows of one stamp keep the source's order"
    assert dataset.frame("trades", "A")["price"].to_list() == [10_000_000_005]
    assert dataset.time_range == (5, 30)
    assert dataset.counts["trades"]["B"] == Count(4, 4)
    assert dataset.sources == ("somewhere.csv",)
    assert dataset.notes == ("a note",)


def test_instruments_come_back_equal(tmp_path: Path) -> None:
    source = imported(trades("A", [1]))
    write_dataset(tmp_path / "d", source)
    assert Dataset.open(tmp_path / "d").instruments == source.instruments


def test_absent_kind_is_an_empty_frame_with_the_canonical_columns(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "d", imported(trades("A", [1])))
    assert dataset.kinds("A") == ("trades",)
    book = dataset.frame("book", "A")
    assert len(book) == 0
    assert book.columns == BOOK_COLUMNS
    assert book.schema["bid_px_00"] == pl.Int64


def test_unknown_symbol_lists_the_known(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "d", imported(trades("A", [1])))
    with pytest.raises(DataError, match="no instrument 'X'; it holds A"):
        dataset.frame("trades", "X")


def test_existing_target_is_refused_and_left_alone(tmp_path: Path) -> None:
    write_dataset(tmp_path / "d", imported(trades("A", [1])))
    with pytest.raises(DataError, match="exists; choose another --out or pass --overwrite"):
        write_dataset(tmp_path / "d", imported(trades("B", [2])))
    assert list(Dataset.open(tmp_path / "d").instruments) == ["A"]


def test_overwrite_replaces_a_dataset_whole(tmp_path: Path) -> None:
    write_dataset(tmp_path / "d", imported(trades("A", [1])))
    write_dataset(tmp_path / "d", imported(trades("B", [2])), overwrite=True)
    assert list(Dataset.open(tmp_path / "d").instruments) == ["B"]
    assert [p.name for p in tmp_path.iterdir()] == ["d"], "no temporary folder is left"


def test_overwrite_never_touches_a_folder_that_is_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="not a dataset folder"):
        write_dataset(tmp_path / "home", imported(trades("A", [1])), overwrite=True)
    assert (tmp_path / "home" / "thesis.txt").read_text() == "years of work"


def test_target_below_a_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is not a folder"):
        write_dataset(tmp_path / "file" / "d", imported(trades("A", [1])))


def test_failure_while_writing_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    write_dataset(tmp_path / "d", imported(trades("A", [1])))
    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(DataError, match="No space left on device"):
        write_dataset(tmp_path / "d", imported(trades("B", [2])), overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["d"]
    assert list(Dataset.open(tmp_path / "d").instruments) == ["A"]


def test_missing_folder_and_missing_index_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere is not a dataset \(dataset.json is missing\)"):
        Dataset.open(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 1}', '{"format": 1, "time_range": null, "instruments": []}']
)
def test_damaged_index_is_named(tmp_path: Path, text: str) -> None:
    write_dataset(tmp_path / "d", imported(trades("A", [1])))
    (tmp_path / "d" / "dataset.json").write_text(text)
    with pytest.raises(DataError, match=r"dataset\.json is damaged"):
        Dataset.open(tmp_path / "d")


def test_an_index_whose_counts_contradict_themselves_is_named(tmp_path: Path) -> None:
    write_dataset(tmp_path / "d", imported(trades("A", [1])))
    index = tmp_path / "d" / "dataset.json"
    index.write_text(index.read_text().replace('"read": 1', '"read": 2'))
    with pytest.raises(DataError, match=r"dataset\.json: 2 rows read, but 1 out"):
        Dataset.open(tmp_path / "d")


def test_newer_format_is_refused(tmp_path: Path) -> None:
    write_dataset(tmp_path / "d", imported(trades("A", [1])))
    index = tmp_path / "d" / "dataset.json"
    index.write_text(json.dumps({**json.loads(index.read_text()), "format": 99}))
    with pytest.raises(DataError, match="format 99, this version reads 1"):
        Dataset.open(tmp_path / "d")


@pytest.mark.parametrize("damage", ["truncate", "empty", "text", "delete"])
def test_damaged_parquet_is_named(tmp_path: Path, damage: str) -> None:
    dataset = write_dataset(tmp_path / "d", imported(trades("A", list(range(1000)))))
    file = dataset.file("trades")
    content = {"truncate": file.read_bytes()[:-100], "empty": b"", "text": b"hello\n"}
    if damage == "delete":
        file.unlink()
    else:
        file.write_bytes(content[damage])
    with pytest.raises(DataError, match=r"trades\.parquet is (damaged|missing)"):
        dataset.frame("trades", "A")


def test_count_refuses_lost_rows() -> None:
    with pytest.raises(DataError, match="3 rows read"):
        Count(3, 1, {"crossed": 1})


def test_merge_adds_rows_and_counts() -> None:
    a, b = imported(trades("A", [1, 2])), imported(trades("A", [3]), trades("B", [4]))
    both = merge([a, b])
    assert both.counts["trades"] == {"A": Count(3, 3), "B": Count(1, 1)}
    assert both.frames["trades"]["ts_event"].to_list() == [1, 2, 3, 4]


def test_merge_refuses_two_descriptions_of_one_symbol() -> None:
    a, b = imported(trades("A", [1])), imported(trades("A", [2]))
    b.instruments["A"] = Instrument("A", "0.05")
    with pytest.raises(DataError, match="instrument A differs"):
        merge([a, b])
