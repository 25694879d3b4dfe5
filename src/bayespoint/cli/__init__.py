"""The command ``bayespoint``."""

import sys
from importlib.util import find_spec

# Packages of the extra; some are imported only by the commands that draw.
NEEDED = ("typer", "rich", "matplotlib", "jinja2")


def main() -> None:
    """Run the command line, or say how to install what it needs."""
    try:
        _run()
    except KeyboardInterrupt:  # while something is imported: commands say more themselves
        print("stopped", file=sys.stderr)
        raise SystemExit(130) from None


def _run() -> None:
    for name in NEEDED:
        if find_spec(name) is None:
            print(
                f"the command line needs the package {name!r}: pip install 'bayespoint[cli]'",
                file=sys.stderr,
            )
            raise SystemExit(2)
    from bayespoint.cli.app import app

    for stream in (sys.stdout, sys.stderr):  # text from data must not stop a terminal of ASCII
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    app(with_values(sys.argv[1:]))


def with_values(arguments: list[str]) -> list[str]:
    """Give --dask its value where it comes without one."""
    after = [*arguments[1:], "--"]
    return [
        "--dask=local" if one == "--dask" and next_one.startswith("-") else one
        for one, next_one in zip(arguments, after, strict=False)
    ]
