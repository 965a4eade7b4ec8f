"""Makes reports known to the data they show: `register` gives results their text, terminal and notebook forms.

Nothing heavy is imported until one is shown.
"""

from __future__ import annotations

from typing import Any

from fuseline.api.shown import View, register_view
from fuseline.report.document import Document


def register() -> None:
    """Let results render themselves, in the language of the locale."""
    register_view(View(terminal, html, plain))


def document_of(result: Any) -> Document:
    """The report on an explanation or a classification."""
    from fuseline.api.explanation import Explanation

    if isinstance(result, Explanation):
        from fuseline.report.explain_document import explain_document

        return explain_document(result)
    from fuseline.report.roofline_document import classification_document

    return classification_document(result)


def terminal(result: Any) -> Any:
    """The rich renderable of a result."""
    from fuseline.report.terminal import TerminalView

    return TerminalView(document_of(result))


def html(result: Any) -> str:
    """The HTML of a result."""
    from fuseline.report.html import html_document

    return html_document(document_of(result))


def plain(result: Any) -> str:
    """The report as text for a terminal of this process's width."""
    import shutil

    from fuseline.report.terminal import plain_text

    return plain_text(document_of(result), shutil.get_terminal_size().columns)
