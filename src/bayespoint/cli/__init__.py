"""The command ``bayespoint``."""

import sys


def main():
    """Run the command line, or say how to install what it needs."""
    try:
        from bayespoint.cli.app import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("bayespoint"):
            raise
        print(
            f"the command line needs the package {error.name!r}: pip install 'bayespoint[cli]'",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    app()
