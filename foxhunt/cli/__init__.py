"""The `foxhunt` command: finds the subcommand, prints errors in one line."""

import sys
from importlib import import_module
from typing import Final

from foxhunt.errors import FoxhuntError

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "demo": ("foxhunt.cli.demo", "import a sample order book, train, back-test and report, in a few minutes"),
    "data": ("foxhunt.cli.data", "import, inspect and validate market data"),
    "train": ("foxhunt.cli.train", "train an agent on a dataset or a Gymnasium environment"),
    "backtest": ("foxhunt.cli.backtest", "judge a trained agent on time it has not seen"),
    "ablate": ("foxhunt.cli.ablate", "measure what each switch of the network is worth, over seeds"),
    "migrate": ("foxhunt.cli.migrate", "give a trained run another trunk and keep everything that reads it"),
    "audit": ("foxhunt.cli.audit", "ask what breaks when a tensor's range changes"),
    "bench": ("foxhunt.cli.bench", "measure the speed of the environment and the readers"),
}
"""Command -> (module with `main(arguments)`, one line of help)."""


def usage() -> str:
    """The text of `foxhunt --help`."""
    rows = "\n".join(f"  {name:<10} {text}" for name, (_, text) in COMMANDS.items())
    return (
        "usage: foxhunt COMMAND [options]    (foxhunt COMMAND --help explains one)\n\n"
        f"Distributional reinforcement learning for order-book trading.\n\n{rows}\n\n"
        "  --version  print the version\n"
        "  --debug    show the traceback of an error\n\n"
        "Start with: foxhunt demo"
    )


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 0 on success, 2 on an error the user can act on."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return 0
    if arguments[0] == "--version":
        from foxhunt import __version__

        print(__version__)
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        print(f"foxhunt: unknown command {name!r}; choose from {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    try:
        result: int = import_module(COMMANDS[name][0]).main(rest)
    except FoxhuntError as error:
        if debug:
            raise
        print(f"foxhunt {name}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"foxhunt {name}: interrupted", file=sys.stderr)
        return 130
    return result
