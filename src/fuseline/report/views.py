"""Makes reports known to the data they show: `register` gives explanations their text, terminal and notebook forms.

Nothing heavy is imported until one is shown.
"""

from __future__ import annotations

from typing import Any

from fuseline.api.explanation import Explanation, View, register_view


def register() -> None:
    """Let explanations render themselves, in the language of the locale."""
    register_view(View(terminal, html, plain))


def terminal(e: Explanation) -> Any:
    """The rich renderable of an explanation."""
    from fuseline.report.explain_document import explain_document
    from fuseline.report.terminal import TerminalView

    return TerminalView(explain_document(e))


def html(e: Explanation) -> str:
    """The HTML of an explanation."""
    from fuseline.report.explain_document import explain_document
    from fuseline.report.html import html_document

    return html_document(explain_document(e))


def plain(e: Explanation) -> str:
    """The report as text for a terminal of this process's width."""
    import shutil

    from fuseline.report.explain_document import explain_document
    from fuseline.report.terminal import plain_text

    return plain_text(explain_document(e), shutil.get_terminal_size().columns)
