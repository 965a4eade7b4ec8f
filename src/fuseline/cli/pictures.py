"""What a command says of a picture that it has written."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuseline.report.chart_files import Picture


def tell_of(drawn: Picture, language: str) -> None:
    """Say on standard error where a picture is in another language than asked for, or has boxes for characters."""
    from fuseline.report.catalogue import text

    if drawn.language != language:
        print(text("chart.no_font", language), file=sys.stderr)
    if drawn.boxes:
        print(text("chart.boxes", language, characters=" ".join(drawn.boxes)), file=sys.stderr)
