"""Charts as files: which formats there are, whether one can be written at all, and the writing.

One Altair description gives SVG, PNG and HTML (with tooltips and zoom, everything inside the file, no network).
"""

from __future__ import annotations

import importlib.util
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from fuseline.errors import UnsupportedError
from fuseline.files import require_place, write_atomically
from fuseline.report.installing import install_features
from fuseline.report.wrapping import cut, width_of

FORMATS = (".svg", ".png", ".html")
WIDTH, HEIGHT = 1200, 800
"""Pixels of every picture."""
FONT = "sans-serif"

_SAMPLE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="24" height="24">'
    '<text x="2" y="18" font-size="16" font-family="sans-serif">{character}</text></svg>'
)


def require_format(path: str | Path) -> str:
    """The ending of ``path``, once it is sure that a chart can be written under it.

    Raises:
        UnsupportedError: another ending than those of ``FORMATS``, or a missing package.
        OutputFileError: a folder that is missing or may not be written to.
    """
    ending = Path(path).suffix.lower()
    if ending not in FORMATS:
        raise UnsupportedError(f"cannot write a chart as {str(path)!r}; use a name ending in {', '.join(FORMATS)}")
    for package in ("altair", "vl_convert"):
        if importlib.util.find_spec(package) is None:
            raise UnsupportedError(
                f"charts need more packages: {install_features(['charts'])}; or, in a checkout, make charts"
            )
    require_place(path)
    return ending


class Picture(NamedTuple):
    """What became of a picture: its language, and the characters in it that stand as boxes."""

    language: str
    boxes: str


def language_of_picture(ending: str, language: str, sample: str) -> str:
    """``language``, or English for a PNG where no font of this machine has the characters of ``sample``.

    The two other formats leave the choice of a font to whoever shows them.
    """
    return "en" if ending == ".png" and language != "en" and not _font_has(sample) else language


def without_font(ending: str, texts: Iterable[str]) -> str:
    """The characters of ``texts`` that a PNG shows as boxes since no font of this machine has them, in order."""
    characters = dict.fromkeys(c for text in texts for c in text if not c.isascii()) if ending == ".png" else {}
    if not characters:
        return ""
    unknown = _drawn(_NO_CHARACTER)
    return "".join(c for c in characters if _drawn(c) == unknown)


def _font_has(sample: str) -> bool:
    """Whether this machine's fonts have all characters of ``sample``."""
    return not without_font(".png", [sample])


_NO_CHARACTER = "\U0010ffff"
"""No font has what Unicode says is no character."""


def _drawn(character: str) -> bytes:
    """A picture of one character; those that no font has look alike."""
    import vl_convert

    picture: bytes = vl_convert.svg_to_png(_SAMPLE.format(character=character))
    return picture


def shortened(name: str, columns: int) -> str:
    """``name`` in at most so many columns, its middle left out where it has more: names differ at either end."""
    if width_of(name) <= columns:
        return name
    tail = ""
    while width_of(name[-len(tail) - 1 :]) <= columns // 3:
        tail = name[-len(tail) - 1 :]
    return cut(name, columns - width_of(tail)) + tail


def styled(chart: Any, title: str, subtitle: list[str], axis: dict[str, Any], legend: dict[str, Any]) -> Any:
    """A chart in the size, fonts and title that all share, with further settings of its axes and legend."""
    import altair as alt

    return (
        chart.properties(
            width=WIDTH,
            height=HEIGHT,
            autosize=alt.AutoSizeParams(type="fit", contains="padding"),
            padding=16,
            background="white",
            title=alt.TitleParams(title, subtitle=subtitle, anchor="start", fontSize=20, subtitleFontSize=13),
        )
        .configure(font=FONT)
        .configure_axis(labelFontSize=13, titleFontSize=15, titlePadding=10, **axis)
        .configure_legend(labelFontSize=13, titleFontSize=14, **legend)
        .configure_view(stroke="#cccccc")
        .interactive()
    )


def write_chart(chart: Any, path: str | Path) -> None:
    """Write an Altair chart to ``path`` in the format of its ending: whole, or not at all.

    Raises:
        OutputFileError: the file cannot be written.
    """
    write_atomically(path, _picture(chart, Path(path).suffix.lower()))


def _picture(chart: Any, ending: str) -> bytes:
    """The content of a file with that ending."""
    if ending == ".png":
        image = io.BytesIO()
        chart.save(image, format="png", scale_factor=1)
        return image.getvalue()
    written = io.StringIO()
    if ending == ".html":
        chart.save(written, format="html", inline=True, json_kwds={"cls": _ScriptJson})
    else:
        chart.save(written, format="svg", scale_factor=1)
    return written.getvalue().encode()


class _ScriptJson(json.JSONEncoder):
    """JSON that cannot end the script in which it stands: a name may be ``</script>``."""

    def encode(self, o: Any) -> str:
        return super().encode(o).replace("<", "\\u003c")
