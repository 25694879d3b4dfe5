"""Where things are, whatever folder the tests run from."""

from pathlib import Path

import bayespoint

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent  # of the repository
DATA = TESTS / "data"
# The folder to put on a child's path, so that it imports the same package.
SOURCE = Path(bayespoint.__file__).resolve().parents[1]
