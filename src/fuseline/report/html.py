"""A document as a piece of HTML for notebooks: no script, no style sheet of its own, every text escaped."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from fuseline.report.document import Bars, Block, Cell, Cells, Code, Column, Document, Facts, Remarks, Table, Tone

_NUMERIC = "text-align: right; white-space: nowrap;"
_TEXT = "text-align: left;"
_TONES: dict[Tone, str] = {"plain": "", "faint": " opacity: 0.6;", "strong": " font-weight: bold;"}


def html_document(document: Document) -> str:
    """The report as one ``<div>``, each section folding away."""
    parts = [f'<div class="fuseline" lang="{escape(document.language)}">', f"<h3>{escape(document.title)}</h3>"]
    for section in document.sections:
        if section.title:
            parts.append(f"<details open><summary><strong>{escape(section.title)}</strong></summary>")
        parts += [line for block in section.blocks for line in _block(block)]
        if section.title:
            parts.append("</details>")
    parts.append("</div>")
    return "\n".join(parts)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Table():
            return _table(block)
        case Facts():
            return _facts(block)
        case Bars():
            return _bars(block)
        case Code():
            return _code(block)
        case Remarks():
            return _remarks(block)


def _table(table: Table) -> Iterator[str]:
    yield "<table>"
    if table.title:
        yield f'<caption style="{_TEXT}">{escape(table.title)}</caption>'
    heads = "".join(f'<th style="{_style(c)}">{escape(c.heading)}</th>' for c in table.columns)
    yield f"<thead><tr>{heads}</tr></thead><tbody>" if any(c.heading for c in table.columns) else "<tbody>"
    for row in table.rows:
        if isinstance(row, Cells):
            cells = zip(table.columns, row.cells, strict=True)
            inner = "".join(f'<td style="{_style(c)}{_TONES[c.tone]}">{_cell(cell)}</td>' for c, cell in cells)
        else:
            inner = f'<td colspan="{len(table.columns)}" style="{_TEXT}"><em>{escape(row.text)}</em></td>'
        yield f"<tr>{inner}</tr>"
    yield "</tbody></table>"


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return escape(cell)
    width = 4 * max(0.0, min(cell.fraction, 1.0))
    bar = f'<div style="background: #0aa; height: 0.3em; min-width: 1px; width: {width:.2f}em;"></div>'
    return escape(cell.value) + bar


def _style(column: Column) -> str:
    return _NUMERIC if column.numeric else _TEXT


def _facts(block: Facts) -> Iterator[str]:
    yield "<table><tbody>"
    for fact in block.facts:
        value = f'<td style="{_NUMERIC} font-weight: bold;">{escape(fact.value)}</td>'
        note = f'<td style="{_TEXT} opacity: 0.6;">{escape(fact.note)}</td>'
        yield f'<tr><td style="{_TEXT}">{escape(fact.label)}</td>{value}{note}</tr>'
    yield "</tbody></table>"


def _bars(block: Bars) -> Iterator[str]:
    yield '<table style="width: 36em;"><tbody>'
    for bar in block.bars:
        width = 100 * max(0.0, min(bar.fraction, 1.0))
        filled = f'<div style="background: #0aa; height: 0.7em; min-width: 1px; width: {width:.2f}%;"></div>'
        label = f'<td style="{_TEXT} white-space: nowrap;">{escape(bar.label)}</td>'
        yield f'<tr>{label}<td style="width: 100%;">{filled}</td><td style="{_NUMERIC}">{escape(bar.value)}</td></tr>'
    yield "</tbody></table>"


def _code(block: Code) -> Iterator[str]:
    if block.title:
        yield f"<p><em>{escape(block.title)}</em></p>"
    yield f'<pre style="overflow-x: auto;">{escape(chr(10).join(block.lines))}</pre>'


def _remarks(block: Remarks) -> Iterator[str]:
    yield "<ul>"
    yield from (f"<li>{escape(paragraph)}</li>" for paragraph in block.paragraphs)
    yield "</ul>"
