"""Where the command ``bayespoint`` begins: outside of the package, whose import takes seconds."""

import os
import signal
import sys


def main() -> None:
    """Run the command line; while the package is imported, Ctrl-C ends it with one line."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # as under nohup
        from bayespoint.cli import main as run
    else:
        signal.signal(signal.SIGINT, _stop)
        from bayespoint.cli import main as run

        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _stop(number: int, frame: object) -> None:  # noqa: ARG001
    """End at once: half-imported packages may hide an exception, or print more."""
    sys.stderr.write("stopped\n")
    sys.stderr.flush()
    os._exit(130)
