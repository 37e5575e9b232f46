"""The command line's frame: help, version, unknown commands, one-line errors."""

import pytest

from foxhunt import __version__
from foxhunt.cli import COMMANDS, main
from foxhunt.errors import ConfigError


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


def test_unknown_command_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trian"]) == 2
    error = capsys.readouterr().err
    assert "'trian'" in error
    assert "train" in error
    assert error.count("\n") == 1


class TestErrors:
    @pytest.fixture(autouse=True)
    def failing_command(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module = type("Failing", (), {"main": staticmethod(self.fail)})
        monkeypatch.setattr("foxhunt.cli.import_module", lambda name: module)

    @staticmethod
    def fail(arguments: list[str]) -> int:
        raise ConfigError("steps must be positive;\n   give --steps 1 or more")

    def test_is_one_line_and_exit_code_2(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["train"]) == 2
        assert capsys.readouterr().err == "foxhunt train: steps must be positive; give --steps 1 or more\n"

    def test_debug_shows_the_traceback(self) -> None:
        with pytest.raises(ConfigError):
            main(["train", "--debug"])
