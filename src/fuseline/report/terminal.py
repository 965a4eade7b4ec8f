"""A document as lines of a terminal: numbers are never cut or broken, texts give way.

The lines are rich texts, so that colours vanish where nobody sees them (pipes, ``NO_COLOR``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from fuseline.report.document import (
    Bars,
    Block,
    Cell,
    Cells,
    Code,
    Column,
    Document,
    Facts,
    Remarks,
    Section,
    Table,
    Tone,
)
from fuseline.report.wrapping import cut, width_of, wrap

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

LEAST_WIDTH = 80
"""From so many columns on every line fits. In fewer, sentences and names still give way, and a table or a list of
figures is as wide as its numbers, so that the terminal breaks its lines."""
MAX_WIDTH = 110
"""Wider terminals keep an empty margin: longer lines are hard to read."""
MAX_BAR = 40
SHARE_BAR, SHARE_VALUE = 6, 8
"""Columns of the bar and of the value in a cell that shows a share."""
NARROWEST = 8
FOLDED = 16
"""What a folding column is narrowed to before a spare one is left out."""
GUTTER = "  "

_STYLES: dict[Tone, str] = {"plain": "", "faint": "dim", "strong": "bold"}
_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True)
class TerminalView:
    """A rich renderable of a document."""

    document: Document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from _Layout(min(options.max_width, MAX_WIDTH), options.ascii_only).document(self.document)


def print_document(document: Document) -> None:
    """Print to standard output, where a text is what it says: no markup, emoji or colours of numbers."""
    from rich.console import Console

    Console(markup=False, highlight=False, emoji=False, soft_wrap=True).print(TerminalView(document))


def plain_text(document: Document, width: int) -> str:
    """The same without styles."""
    return "\n".join(line.plain for line in _Layout(min(width, MAX_WIDTH), False).document(document))


def pad(text: str, width: int, right: bool = False) -> str:
    """``text`` filled with spaces to ``width`` columns, on its left where it is to stand ``right``."""
    space = " " * max(0, width - width_of(text))
    return space + text if right else text + space


class _Layout:
    def __init__(self, width: int, ascii_only: bool) -> None:
        self.width = max(width, 2 * NARROWEST)
        self.ascii_only = ascii_only

    def document(self, document: Document) -> Iterator[Text]:
        for part in wrap(document.title, self.width):
            yield _line(part, "bold")
        for section in document.sections:
            yield from self.section(section)

    def section(self, section: Section) -> Iterator[Text]:
        if section.title:
            rule = ("-" if self.ascii_only else "─") * max(0, self.width - width_of(section.title) - 1)
            yield _line("")
            yield _join([(section.title, "bold cyan"), (" " + rule, "cyan")])
        for block in section.blocks:
            lines = list(self.block(block))
            if lines:
                yield _line("")
                yield from lines

    def block(self, block: Block) -> Iterator[Text]:
        match block:
            case Table():
                return self.table(block)
            case Facts():
                return self.facts(block)
            case Bars():
                return self.bars(block)
            case Code():
                return self.code(block)
            case Remarks():
                return self.remarks(block)

    # ── tables ──

    def table(self, table: Table) -> Iterator[Text]:
        rows = [[self.cell(cell) for cell in row.cells] for row in table.rows if isinstance(row, Cells)]
        kept = self.kept(table.columns, rows)
        columns = [table.columns[j] for j in kept]
        widths = self.widths(columns, [[row[j] for j in kept] for row in rows])
        shown = iter(rows)
        if table.title:
            for part in wrap(table.title, self.width):
                yield _line(part, "italic")
        headings = [column.heading for column in columns]
        if any(headings):
            yield from self.row(columns, headings, widths, "dim")
        for row in table.rows:
            if isinstance(row, Cells):
                cells = next(shown)
                yield from self.row(columns, [cells[j] for j in kept], widths)
            else:
                for part in wrap(row.text, self.width):
                    yield _line(part, "yellow")

    def kept(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
        """The columns that are shown: all where they fit with what folds folded, else without the sparest ones."""
        kept = list(range(len(columns)))
        if not any(column.spare for column in columns):
            return kept
        natural = [_natural(column, [row[j] for row in rows]) for j, column in enumerate(columns)]
        least = [min(n, FOLDED) if c.folding else n for n, c in zip(natural, columns, strict=True)]
        for spare in sorted({column.spare for column in columns} - {0}, reverse=True):
            if sum(least[j] for j in kept) + len(GUTTER) * (len(kept) - 1) <= self.width:
                break
            kept = [j for j in kept if columns[j].spare != spare]
        return kept

    def cell(self, cell: Cell) -> str:
        """A cell as text."""
        if isinstance(cell, str):
            return cell
        return f"{pad(self.bar(cell.fraction, SHARE_BAR), SHARE_BAR)} {pad(cell.value, SHARE_VALUE, right=True)}"

    def widths(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
        """Natural widths, the widest columns that may be narrowed until the table fits."""
        widths = [_natural(column, [row[j] for row in rows]) for j, column in enumerate(columns)]
        flexible = [j for j, column in enumerate(columns) if column.flexible or column.folding]
        excess = sum(widths) + len(GUTTER) * (len(columns) - 1) - self.width
        while excess > 0 and flexible:
            widest = max(flexible, key=lambda j: widths[j])
            second = max((widths[j] for j in flexible if j != widest), default=0)
            least = max(NARROWEST, min(second, widths[widest] - 1))
            if widths[widest] <= NARROWEST:
                break
            taken = min(excess, max(1, widths[widest] - least))
            widths[widest] -= taken
            excess -= taken
        return widths

    def row(
        self, columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int], style: str = ""
    ) -> Iterator[Text]:
        """A row, in as many lines as its longest folded cell takes."""
        stacks = [_stack(*of) for of in zip(columns, cells, widths, strict=True)]
        for line in zip_longest(*stacks, fillvalue=""):
            parts = []
            for j, (column, shown, width) in enumerate(zip(columns, line, widths, strict=True)):
                parts.append((GUTTER if j else "", ""))
                parts.append((pad(shown, width, right=column.numeric), style or _STYLES[column.tone]))
            yield _join(parts)

    # ── the other blocks ──

    def facts(self, block: Facts) -> Iterator[Text]:
        labels = max((width_of(f.label) for f in block.facts), default=0)
        values = max((width_of(f.value) for f in block.facts), default=0)
        indent = labels + values + 2 * len(GUTTER)
        for fact in block.facts:
            notes = wrap(fact.note, max(self.width - indent, NARROWEST)) or [""]
            start = [(pad(fact.label, labels) + GUTTER, ""), (pad(fact.value, values) + GUTTER, "bold")]
            yield _join([*start, (notes[0], "dim")])
            for note in notes[1:]:
                yield _join([(" " * indent, ""), (note, "dim")])

    def bars(self, block: Bars) -> Iterator[Text]:
        labels = min(max((width_of(b.label) for b in block.bars), default=0), self.width // 2)
        values = max((width_of(b.value) for b in block.bars), default=0)
        room = min(MAX_BAR, self.width - labels - values - 2 * len(GUTTER))
        for bar in block.bars:
            label = pad(cut(bar.label, labels), labels) + GUTTER
            filled = self.bar(bar.fraction, max(room, 1))
            yield _join([(label, ""), (filled, "cyan"), (GUTTER + bar.value, "")])

    def bar(self, fraction: float, room: int) -> str:
        cells = max(0.0, min(fraction, 1.0)) * room
        if self.ascii_only:
            return "#" * max(1, round(cells))
        whole, eighths = divmod(max(1, round(cells * 8)), 8)
        return "█" * whole + (_EIGHTHS[eighths] if eighths else "")

    def code(self, block: Code) -> Iterator[Text]:
        if block.title:
            yield _line(block.title, "dim")
        room = self.width - len(GUTTER)
        for line in block.lines:
            parts = _folded(line, room) if block.fold else [cut(line, room)]
            for part in parts:
                yield _line(GUTTER + part, "green" if block.fold else "")

    def remarks(self, block: Remarks) -> Iterator[Text]:
        bullet = "* " if self.ascii_only else "• "
        for paragraph in block.paragraphs:
            for j, part in enumerate(_wrapped(paragraph, self.width - 2)):
                yield _join([("  " if j else bullet, "cyan"), (part, "")])


def _natural(column: Column, cells: Sequence[str]) -> int:
    """Columns of a terminal that the widest cell takes, the heading included."""
    return max(map(width_of, (column.heading, *cells)))


def _stack(column: Column, cell: str, width: int) -> list[str]:
    """The lines of a cell."""
    if column.folding:
        return _wrapped(cell, width)
    return [cell if column.numeric else cut(cell, width)]


def _wrapped(text: str, width: int) -> list[str]:
    """``text`` in lines of at most ``width`` columns; a word that is wider, as an address may be, is torn."""
    lines: list[str] = []
    for part in wrap(text, width) or [""]:
        while width_of(part) > width:
            end = next(end for end in range(min(width, len(part)), 0, -1) if width_of(part[:end]) <= width)
            lines.append(part[:end])
            part = part[end:]
        lines.append(part)
    return lines


def _folded(line: str, width: int) -> list[str]:
    """``line`` continued with an indent; parts too long for a line are torn, so that nothing of it is lost."""
    lines: list[str] = []
    for part in wrap(line, width) or [""]:
        while width_of(part) > width:
            end = _break_in(part, width)
            lines.append(part[:end])
            part = part[end:]
        lines.append(part)
    return [lines[0], *(GUTTER + continued for continued in lines[1:])]


def _break_in(part: str, width: int) -> int:
    """Where to tear ``part`` so that its start fits: after an operator where there is one, not within a number."""
    fits = next(end for end in range(min(width, len(part)), 0, -1) if width_of(part[:end]) <= width)
    operator = max(part.rfind(c, 0, fits) for c in "+-*/,(<>=&|;")
    return operator + 1 if operator >= fits // 2 else fits


def _line(content: str, style: str = "") -> Text:
    return _join([(content, style)])


def _join(parts: Sequence[tuple[str, str]]) -> Text:
    from rich.text import Text

    found = Text(no_wrap=True, overflow="ignore")
    for content, style in parts:
        found.append(content, style)
    found.rstrip()
    return found
