"""The one error of model files, and safe words for what stands in a file."""

from typing import Any

# Characters of a text from a file that a message shows.
SHOWN = 60
SHOWN_OF_ERROR = 300


class ModelFileError(ValueError):
    """A model cannot be saved, or a file is not a model that can be loaded.

    Examples
    --------
    >>> import tempfile
    >>> from bayespoint.io import model_file
    >>> with tempfile.NamedTemporaryFile() as empty:
    ...     try:
    ...         model_file.load(empty.name)
    ...     except model_file.ModelFileError as error:
    ...         print(str(error).partition(": ")[2])
    not a bayespoint model file, or cut short: the end of its directory is missing.
    """


def shown(value: Any) -> str:
    """Text of a value from a file, printable and short."""
    text = ascii(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def one_line(error: object) -> str:
    """Text of another error, which may quote a file: printable, short, in one line."""
    text = " ".join(str(error).split()).encode("ascii", "backslashreplace").decode("ascii")
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= SHOWN_OF_ERROR else text[:SHOWN_OF_ERROR] + "..."
