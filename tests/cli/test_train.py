"""`foxhunt train` from the outside: help, presets, errors in one line, interruption and resumption."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from foxhunt.cli import main
from foxhunt.presets import PRESETS

TINY = [
    *("--env", "CartPole-v1", "--environments", "4", "--evaluations", "2", "--evaluation-episodes", "2"),
    *("--network.hidden1", "8", "--network.hidden2", "8", "--network.head-hidden", "8"),
    *("--learner.batch-size", "8", "--learner.warmup-steps", "50", "--learner.replay-capacity", "400"),
]


def test_help_lists_nested_settings_with_their_units(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["train", "--help"])
    assert exit_.value.code == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for part in (
        "--learner.learning-rate",
        "--network.trunk {grn,relu}",
        "--market.initial-cash",
        "--resume",
        "--preset",
    ):
        assert part in text
    assert "Order-entry latency: an order decided at t" in text
    assert "foxhunt train --env CartPole-v1" in text


def test_a_run_prints_its_evaluations_and_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main(["train", *TINY, "--steps", "200", "--out", str(out), "--seed", "3"]) == 0
    text = capsys.readouterr().out
    assert "training on CartPole-v1: 200 steps in 4 environments, trunk grn, seed 3" in text
    returns = [r["evaluation_return"] for r in read_metrics(out) if "evaluation_return" in r]
    assert len(returns) == 2
    assert f"step       200  validation {returns[1]:,.2f} reward" in text
    assert f"mean validation return {returns[1]:,.2f} reward at the end, {max(returns):,.2f} at best" in text


def read_metrics(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_preset_follows_the_task_and_flags_override_it(tmp_path: Path) -> None:
    assert main(["train", *TINY, "--steps", "60", "--out", str(tmp_path / "a"), "--learner.n-step", "2"]) == 0
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    assert (config["network"]["v_max"], config["learner"]["n_step"]) == (100.0, 2)  # v_max is the preset's
    arguments = ["train", *TINY, "--preset", "default", "--steps", "60", "--out", str(tmp_path / "b")]
    assert main([*arguments, "--network.trunk", "relu"]) == 0
    config = json.loads((tmp_path / "b" / "config.json").read_text())
    assert (config["network"]["v_max"], config["network"]["trunk"]) == (15.0, "relu")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to train on; give --data DIR (a folder written by foxhunt data import) or --env ID"),
        (["--env", "NoSuch-v7"], "cannot make Gymnasium environment 'NoSuch-v7'"),
        (["--env", "CartPole-v1", "--preset", "best"], f"unknown preset 'best'; choose from {', '.join(PRESETS)}"),
        (["--env", "CartPole-v1", "--learner.discount", "1.5"], "learner.discount must be in (0, 1]"),
        (["--env", "CartPole-v1", "--data", "x"], "give --data or --env, not both"),
        (
            ["--env", "CartPole-v1", "--environments", "64", "--learner.replay-capacity", "256"],
            "learner.replay_capacity",
        ),
        (["--data", "/no/such/dataset"], "/no/such/dataset is not a dataset"),
        (["--resume", "/no/such/run"], "/no/such/run is not a run with checkpoints"),
        (["--resume", "x", "--steps", "9"], "--resume takes the run's own settings; leave out --steps"),
        (["--resume", "x", "--env", "CartPole-v1"], "--resume takes the run's own settings; leave out --env"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = [] if "--resume" in arguments else ["--out", str(tmp_path / "run")]
    assert main(["train", *arguments, *out]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("foxhunt train: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_an_interrupted_run_is_saved_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "foxhunt", "train", *TINY, "--steps", "1200", "--out", str(out)]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}  # as here: sums depend on how many threads share them
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=one_thread)
    while not (out / "metrics.jsonl").exists() or len(read_metrics(out)) < 10:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert f"go on with: foxhunt train --resume {out}\n" in process.communicate()[0]
    assert process.returncode == 130
    assert main(["train", "--resume", str(out)]) == 0
    assert "going on from step" in capsys.readouterr().out
    assert read_metrics(out)[-1]["step"] == 1200
    # Equal to a run that nobody interrupted.
    whole = tmp_path / "whole"
    assert main(["train", *TINY, "--steps", "1200", "--out", str(whole)]) == 0
    assert (whole / "metrics.jsonl").read_bytes() == (out / "metrics.jsonl").read_bytes()
