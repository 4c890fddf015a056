"""The command line: a module a command, one exit status for every kind of fault.

Exit status: 0 done, 1 failed at work, 2 bad arguments or settings; one line says what and what to do.
Heavy imports (torch, transformers) stand inside the commands: `--help` answers at once.
"""

from __future__ import annotations

import errno
import sys

import typer

from experiments.cli import (  # noqa: F401  (importing a module registers its commands)
    bench,
    cache,
    capture,
    causal,
    doctor,
    judge,
    listings,
    organisms,
    probe,
    run,
    score,
    sweep,
    train_heads,
    trained_organisms,
)
from experiments.cli.app import app

_INTERRUPTED = 130
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main() -> None:
    """Run the command line; every fault ends with one line on standard error."""
    sys.exit(_status())


def _status() -> int:
    arguments = sys.argv[1:] or ["--help"]
    try:
        # typer gives the status of a Ctrl-C back instead of raising it.
        status = app(arguments, standalone_mode=False) or 0
    except typer.TyperException as error:
        message = getattr(error, "format_message", error.__str__)()
        return _fail(f"{message.rstrip('.')}; `selfprobe --help` shows what is possible", 2)
    except (KeyboardInterrupt, typer.Abort):
        return _fail_interrupted()
    except (ValueError, ImportError) as error:
        return _fail(str(error), 2)
    except MemoryError as error:
        why = f" ({error})" if str(error) else ""
        return _fail(f"not enough memory{why}; give it fewer items, layers or workers", 1)
    except OSError as error:
        mend = "; make room and run the same command again" if error.errno in _FULL else ""
        return _fail(f"{error}{mend}", 1)
    except RuntimeError as error:
        return _fail(str(error), 1)
    return _fail_interrupted() if status == _INTERRUPTED else int(status)


def _fail_interrupted() -> int:
    return _fail("stopped; the same command picks up what is finished", _INTERRUPTED)


def _fail(message: str, status: int) -> int:
    print("selfprobe: " + " ".join(message.split()), file=sys.stderr)
    return status
