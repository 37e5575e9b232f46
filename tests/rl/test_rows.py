"""The 28 rows of docs/network.md: every one runs in a training step of preset `full` and gets its gradient."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from importlib import import_module
from inspect import isclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
import torch
from torch import Tensor

from foxhunt.config import TrainConfig
from foxhunt.data.imported import Imported
from foxhunt.data.simulator import SimulatorConfig, simulate
from foxhunt.data.store import write_dataset
from foxhunt.nn.gates import RegimeDropout
from foxhunt.nn.heads import LinearHead
from foxhunt.presets import PRESETS
from foxhunt.rl.targets import bootstrap
from foxhunt.rl.trainer import Trainer

ROOT = Path(__file__).parents[2]
NO_GRADIENT = {23, 24, 25}
"""The target network, storage and the monitor: they run, and nothing trains them."""
NO_SWITCH = {1, 2, 3, 4, 20, 25, 28}
"""Value and branches are the agent; the monitor changes nothing."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    number: int
    consumer: str
    code: str
    weights: list[str]
    loss: str
    switch: str
    diagnostic: str
    test: str

    @property
    def metrics(self) -> list[str]:
        """Names in metrics.jsonl."""
        return re.findall(r"`([^`]+)`", self.diagnostic)

    @property
    def sections(self) -> list[str]:
        """Titles in the report of a back-test."""
        return re.findall(r'"([^"]+)"', self.diagnostic)

    def function(self) -> CodeType:
        """The code that the row names; of a module, its forward pass."""
        file, name = self.code.split(":")
        module = import_module(file.removesuffix(".py").replace("/", "."))
        found: Any = reduce(getattr, name.split("."), module)
        function: Any = found.forward if isclass(found) else found
        function = getattr(function, "__wrapped__", function)
        code: CodeType = function.__code__
        return code


def read_rows() -> list[Row]:
    lines = (ROOT / "docs" / "network.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if re.match(r"\| \d+ \|", line)]
    return [
        Row(
            *(int(number), consumer, code.strip("`"), re.findall(r"`([^`]+)`", weights)),
            *(loss.strip("`"), switch.strip("`"), diagnostic, test.strip("`")),
        )
        for number, consumer, code, weights, loss, switch, diagnostic, test in cells
    ]


ROWS = read_rows()


@contextmanager
def returned(wanted: set[CodeType]) -> Iterator[dict[CodeType, list[Tensor]]]:
    """Tensors that the functions wanted returned while called inside."""
    results: dict[CodeType, list[Tensor]] = {}

    def profile(frame: FrameType, event: str, result: object) -> None:
        if event == "return" and frame.f_code in wanted:
            leaves = torch.utils._pytree.tree_leaves(result)
            results.setdefault(frame.f_code, []).extend(x for x in leaves if isinstance(x, Tensor))

    sys.setprofile(profile)
    try:
        yield results
    finally:
        sys.setprofile(None)


def config(folder: Path) -> TrainConfig:
    """Preset `full` in small sizes, on a simulated market."""
    simulation = simulate(SimulatorConfig(seconds=400, seed=0))
    instruments = {simulation.instrument.symbol: simulation.instrument}
    data = write_dataset(
        folder / "market", Imported(instruments, {"book": simulation.book, "trades": simulation.trades})
    )
    full = PRESETS["full"]
    return replace(
        full,
        data=data.path,
        out=folder / "run",
        steps=200,
        environments=4,
        evaluations=1,
        market=replace(full.market, episode_steps=40),
        network=replace(full.network, hidden1=8, hidden2=8, head_hidden=8, atoms=11, history=6, plan_horizon=5),
        learner=replace(full.learner, batch_size=64, warmup_steps=100, replay_capacity=400),
    )


@pytest.fixture
def trainer(tmp_path: Path) -> Trainer:
    """A run just before an update, away from the zeros and identities of the start."""
    trainer = Trainer(config(tmp_path))
    trainer.train(stop_at=140)
    noise = torch.randn(trainer.learner.parameters.shape, generator=torch.Generator().manual_seed(0))
    trainer.learner.parameters.add_(0.2 * noise)
    return trainer


def faults(trainer: Trainer) -> dict[int, str]:
    """What each row lacks in one training step, by number."""
    learner, updates = trainer.learner, trainer.updates
    wanted = {row.function() for row in ROWS}
    with returned(wanted) as run:
        while trainer.updates == updates:
            trainer._iterate()
        trainer._monitored()
    batch = trainer.replay.sample(64, learner.importance_exponent())
    targets = bootstrap(learner.network, learner.target, batch, learner.updates)
    with returned(wanted) as results:
        loss, found = learner._objective(batch, targets, learner.updates)
    differentiable = {code: [x for x in results.get(code, []) if x.requires_grad] for code in wanted}
    for tensors in differentiable.values():
        for tensor in tensors:
            tensor.retain_grad()
    loss.backward()
    size = {name: 0 if p.grad is None else float(p.grad.abs().max()) for name, p in learner.network.named_parameters()}

    def lacks(row: Row) -> str | None:
        code = row.function()
        if code not in run:
            return "does not run"
        if row.number in NO_GRADIENT:
            return None
        if row.loss != "all" and row.loss not in found.losses:
            return f"has no loss {row.loss}"
        if not any(x.grad is not None and bool(x.grad.abs().max() > 0) for x in differentiable[code]):
            return "gets no gradient"
        for prefix in row.weights:
            of_row = [name for name in size if f"{name}.".startswith(f"{prefix}.")]
            if not of_row:
                return f"has no weights {prefix}"
            still = [name for name in of_row if not size[name] > 0]
            if still:
                return f"does not train {still}"
        return None

    return {row.number: lack for row in ROWS if (lack := lacks(row)) is not None}


def test_there_are_28_rows() -> None:
    assert [row.number for row in ROWS] == list(range(1, 29))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.number))
def test_names_of_a_row_exist(row: Row) -> None:
    assert row.function()
    if row.number in NO_SWITCH:
        assert row.switch.startswith("none")
    else:
        assert reduce(getattr, row.switch.split("."), PRESETS["full"])
    assert row.metrics
    titles = (ROOT / "foxhunt" / "evaluate" / "head_page.py").read_text()
    assert all(re.search(rf'"{re.escape(section)}[":]', titles) for section in row.sections)
    file, name = row.test.split("::")
    assert re.search(rf"^(def|class) {name}\b", (ROOT / file).read_text(), re.MULTILINE)


def test_every_row_runs_and_learns(trainer: Trainer) -> None:
    assert faults(trainer) == {}
    trainer.train()
    assert {metric for row in ROWS for metric in row.metrics} <= trainer.newest.keys()


class TestABrokenRowIsFound:
    def test_scan_left_out(self, trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
        temporal = trainer.learner.network.encoder.temporal
        assert temporal is not None
        monkeypatch.setattr(temporal, "forward", lambda h, *_: h)
        found = faults(trainer)
        assert found[6] == found[16] == "gets no gradient"

    def test_dropout_left_out(self, trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(trainer.learner.network.encoder, "dropout", None)
        assert isinstance(trainer.learner.target.encoder.dropout, RegimeDropout)
        assert faults(trainer) == {18: "does not run"}

    def test_head_cut_off(self, trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
        head = trainer.learner.network.selectivity
        assert isinstance(head, LinearHead)
        forward = head.forward
        monkeypatch.setattr(head, "forward", lambda h: forward(h).detach())
        assert list(faults(trainer)) == [14]
