"""Finding the reader, joining files, and one clear line for what cannot be read."""

from pathlib import Path

import polars as pl
import pytest

from foxhunt.data.readers import FORMATS, ImportOptions, detect, read_sources
from foxhunt.data.sample import sample_paths
from foxhunt.errors import DataError

BARS = "date,open,high,low,close\n2022-06-01,10,11,9,10\n2022-06-02,10,11,9,10\n"


def test_an_unknown_format_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"unknown format 'itch'; choose from auto, bitstamp, dbn, .*, mbp, bars"):
        read_sources([tmp_path], ImportOptions(format="itch"))


def test_a_file_of_no_known_format_says_what_can_be_done(tmp_path: Path) -> None:
    path = tmp_path / "poem.csv"
    path.write_text("roses,are,red\nviolets,are,blue\n")
    assert detect(path) is None
    with pytest.raises(DataError, match=r"poem\.csv is of no known format; name one with --format"):
        read_sources([path])


@pytest.mark.parametrize("name", FORMATS)
def test_a_missing_file_is_named_by_every_reader(tmp_path: Path, name: str) -> None:
    for options in (ImportOptions(), ImportOptions(format=name)):
        with pytest.raises(DataError, match=r"nowhere\.csv does not exist"):
            read_sources([tmp_path / "nowhere.csv"], options)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zip"])
def test_a_damaged_archive_is_named(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"bars.csv{suffix}"
    path.write_bytes(b"certainly not compressed")
    with pytest.raises(DataError, match=r"bars\.csv\.\w+ is truncated or damaged"):
        read_sources([path])


def test_a_folder_is_read_whole_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "A.csv").write_text(BARS)
    (tmp_path / "B.csv").write_text(BARS.replace("10,11,9", "20,22,18"))
    (tmp_path / "README.md").write_text("hello")
    result = read_sources([tmp_path])
    assert list(result.instruments) == ["A", "B"]
    assert "not used: README.md" in result.notes


def test_files_of_one_symbol_follow_each_other(tmp_path: Path) -> None:
    (tmp_path / "later.csv").write_text(BARS.replace("2022", "2023"))
    (tmp_path / "earlier.csv").write_text(BARS)
    result = read_sources([tmp_path], ImportOptions(symbol="A", tick_size="1"))
    assert result.counts["bars"]["A"].read == 4


def test_files_that_hold_the_same_time_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text(BARS)
    (tmp_path / "two.csv").write_text(BARS)
    with pytest.raises(DataError, match=r"one\.csv and .*two\.csv both hold bars of A for the same time"):
        read_sources([tmp_path], ImportOptions(symbol="A", tick_size="1"))


def test_an_import_of_which_nothing_is_left_says_why(tmp_path: Path) -> None:
    (tmp_path / "A.csv").write_text(BARS)
    with pytest.raises(DataError, match=r"every row was rejected \(off tick: 2\); check tick, time zone and map"):
        read_sources([tmp_path / "A.csv"], ImportOptions(tick_size="0.3"))


def test_progress_names_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "A.csv").write_text(BARS)
    told: list[str] = []
    read_sources([tmp_path / "A.csv"], progress=told.append)
    assert told == ["A.csv as bars"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"timezone": "Mars/Olympus"}, "unknown time zone 'Mars/Olympus'"),
        ({"sessions": ("9-16",)}, "--sessions takes START/STOP"),
        ({"every": "0s"}, "--every must be longer than 0"),
    ],
)
def test_impossible_options_are_refused_when_built(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        ImportOptions(**wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_hours_given_by_the_user_cut_the_data(tmp_path: Path) -> None:
    rows = "".join(f"2022-06-01 {hour:02d}:00,10,11,9,10\n" for hour in (8, 10, 12, 17))
    (tmp_path / "A.csv").write_text("date,open,high,low,close\n" + rows)
    result = read_sources([tmp_path / "A.csv"], ImportOptions(tick_size="1", sessions=("09:30/11:30", "12:00/16:00")))
    assert result.quarantine["row"].to_list() == [1, 4]
    assert result.instruments["A"].sessions == (("09:30", "11:30"), ("12:00", "16:00"))


def test_the_sample_is_the_packages_own_files() -> None:
    events, trades = sample_paths()
    assert pl.read_csv(trades).height == 284
    assert events.name == "orders.csv.gz"
    assert {detect(events), detect(trades)} == {"bitstamp"}
