"""Errors a user can act on: one line that names the file, row or argument, and the remedy."""


class FoxhuntError(Exception):
    """Base of every error that the command line prints without a traceback (exit code 2)."""


class DataError(FoxhuntError):
    """Input data cannot be read, or does not mean what its format says."""


class ConfigError(FoxhuntError):
    """A setting is impossible, or contradicts another one."""


class CheckpointError(FoxhuntError):
    """A run or checkpoint folder is missing, damaged or of another kind."""


class MissingExtraError(FoxhuntError):
    """A feature needs a package that is not installed."""

    def __init__(self, package: str, extra: str, feature: str) -> None:
        super().__init__(f"{feature} needs {package}; install it with: pip install 'foxhunt[{extra}]'")
