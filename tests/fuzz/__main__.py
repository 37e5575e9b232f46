"""Coverage-guided fuzzing of one reader, or of all in turn, bounded in inputs and time.

python -m tests.fuzz --runs 1000 --seconds 20          every reader, as `make fuzz` does
python -m tests.fuzz binance bars --runs 100000 --seconds 3600
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # inputs are tiny, and many fuzzers share a machine

CASES: Final = Path(__file__).parent / "crashes"


def main() -> int:
    """Fuzz; 0 when no input broke a reader."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("readers", nargs="*", help="readers to fuzz instead of all")
    parser.add_argument("--runs", type=int, default=1000, help="inputs a reader (default 1000)")
    parser.add_argument("--seconds", type=int, default=20, help="longest time in all (default 20)")
    parser.add_argument("--seed", type=int, default=1, help="of the mutations (default 1)")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        parser.error("atheris is not installed; pip install 'foxhunt[dev]' on Linux with Python 3.11 or 3.12")
    if chosen.here:
        return _one(chosen.readers[0], chosen.runs, chosen.seconds, chosen.seed)
    from tests.fuzz.check import targets

    if unknown := set(chosen.readers) - set(targets()):
        parser.error(f"no reader {min(unknown)!r}; choose from {', '.join(targets())}")
    return _each(chosen.readers or list(targets()), chosen.runs, chosen.seconds, chosen.seed)


def _each(names: list[str], runs: int, seconds: int, seed: int) -> int:
    """Each reader in a process of its own, as a crash of native code would end it."""
    end, failed = time.monotonic() + seconds, []
    for place, name in enumerate(names):
        left = max(1, round((end - time.monotonic()) / (len(names) - place)))
        limits = [f"--runs={runs}", f"--seconds={left}", f"--seed={seed}"]
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz", name, "--here", *limits],
            check=False,
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            print(done.stderr[-2000:], flush=True)
            failed.append(name)
    print(f"{len(names) - len(failed)} readers held" + (f"; broken: {', '.join(failed)}" if failed else ""), flush=True)
    return 1 if failed else 0


def _one(name: str, runs: int, seconds: int, seed: int) -> int:
    import atheris

    with atheris.instrument_imports(include=["foxhunt.data"], enable_loader_override=False):
        from foxhunt.data.readers import bars, binance, bitstamp, dbn, lobster, mbp, tardis  # noqa: F401  # loaded under instrumentation
        from tests.fuzz.check import check, targets
    target = targets()[name]
    fed = read = 0
    end = time.monotonic() + seconds
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    corpus, work = folder / "corpus", folder / "work"
    for place in (corpus, work):
        place.mkdir()
    for number, content in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(content)

    def finish(status: int) -> None:
        print(f"{name}: {fed:,} inputs, {read:,} of them read", flush=True)
        subprocess.run(["rm", "-r", str(folder)], check=True)
        os._exit(status)  # libFuzzer ends the process itself, without Python's own leave-taking

    def feed(data: bytes) -> None:
        nonlocal fed, read
        try:
            read += check(target, data, work)
        except BaseException:
            import traceback

            CASES.mkdir(exist_ok=True)
            kept = CASES / f"{name}-{seed}-{fed}"
            kept.write_bytes(data)
            traceback.print_exc()
            print(f"{name}: broken by an input kept as {kept}", flush=True)
            finish(1)
        fed += 1
        if fed >= runs or time.monotonic() > end:
            finish(0)

    flags = ["-max_len=8192", "-verbosity=0", f"-seed={seed}", "-timeout=0", "-rss_limit_mb=0"]
    atheris.Setup([sys.argv[0], *flags, str(corpus)], feed)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
