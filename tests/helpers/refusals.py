"""Tables of bad arguments, each with what it is told."""

import re


def assert_refused(function, cases, **good):
    """With each case's arguments among the good ones there is a ValueError that says so."""
    for bad, message in cases:
        said = None
        try:
            function(**good | bad)
        except ValueError as error:
            said = str(error)
        assert said is not None, f"{bad} was not refused"
        assert re.search(message, said), f"{bad}: {said}"
