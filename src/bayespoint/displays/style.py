"""What all pictures share: colours, sizes, and matplotlib, imported when something is drawn."""

# Okabe and Ito's colours, told apart with any colour vision; dashes tell curves apart in grey.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK = COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
)  # fmt: skip
DASHES = ("-", "--", "-.", ":")

# Points; readable when the picture is halved.
LABEL_SIZE = 14
TEXT_SIZE = 13


def pyplot(name):
    """Return matplotlib's pyplot for the display ``name``."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{name} needs matplotlib; run: pip install 'bayespoint[plot]'"
        ) from error
    return plt
