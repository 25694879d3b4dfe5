"""What the pages that commands write are made of: layout, style, charts, rows of a file."""

from bayespoint.cli.pages.writing import label, number, percent, row_of, write_page

__all__ = ["label", "number", "percent", "row_of", "write_page"]
