"""Runs the LALR tables that lark makes of a grammar, calling an action for each rule as it is reduced.

lark reads the grammar and builds the tables, which are kept beside it as data (`tools/make_formula_tables.py`), because
building them takes longer than most formulas. The loop is ours because it is nearly all of the time a formula takes:
one regular expression finds the tokens, rules are numbers rather than hashed objects, and the unit rules that
precedence is spelled with are crossed in one step.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

Token = re.Match[str]
"""A token: ``lastgroup`` is its terminal, ``[0]`` its text, ``start()`` its offset."""

END = "$END"
_NO_TERMINAL = "NO_TERMINAL"
_OPENING, _CLOSING = ("LPAR", "LSQB"), ("RPAR", "RSQB")


class UnexpectedToken(Exception):
    """The text does not go on like this: ``token`` is what stands there, None at the end of the text.

    ``before`` is the token before it, where no rule has taken that one up yet.
    """

    def __init__(self, token: Token | None, before: Token | None) -> None:
        super().__init__(token)
        self.token = token
        self.before = before


class UnexpectedCharacter(Exception):
    """No token starts at ``offset``."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class _Rule:
    """What a reduction does: replace ``size`` values by one of them, by a list of them, or by an action's result."""

    origin: str
    size: int
    pick: int | None
    kept: tuple[int, ...]
    spliced: frozenset[int]
    action: str

    @property
    def is_unit(self) -> bool:
        return self.size == 1 and self.pick == 0


class Parser:
    """A grammar ready to run; made once and shared by all threads.

    The value of a rule is what its action returns: the method of that name (the alias's, where there is one) of the
    object given to `parse`. As in lark, a rule called ``?name`` with one child is that child, the children of a rule
    called ``_name`` become its user's, and unnamed punctuation is dropped. Tokens of the terminal ``line_end`` are
    dropped inside brackets.
    """

    def __init__(self, tables: Mapping[str, Any], line_end: str) -> None:
        self._start: int = tables["start"]
        self._end: int = tables["end"]
        self._rules = [
            _Rule(origin, size, pick, tuple(kept), frozenset(spliced), action)
            for origin, size, pick, kept, spliced, action in tables["rules"]
        ]
        self._table: list[dict[str, int]] = tables["states"]
        self._scanner = re.compile(tables["tokens"])
        self._ignored = frozenset(tables["ignored"])
        self._line_end = line_end
        self._settled: dict[tuple[int, str, str], int] = {}

    def parse(self, text: str, actions: object) -> Any:
        """The value of the start rule; `UnexpectedToken` or `UnexpectedCharacter` where the text leaves the grammar."""
        table, settled = self._table, self._settled
        steps = [(rule.origin, rule.size, self._reducer(rule, actions)) for rule in self._rules]
        states, values = [self._start], []
        for token in chain(self._tokens(text), (None,)):
            kind: Any = token.lastgroup if token is not None else END
            while (action := table[states[-1]].get(kind)) is not None:
                if action >= 0:
                    states.append(action)
                    values.append(token)
                    break
                origin, size, reduce = steps[-1 - action]
                if size:
                    value = reduce(values[-size:])
                    del states[-size:], values[-size:]
                else:
                    value = reduce([])
                key = (states[-1], origin, kind)
                target = settled.get(key)
                if target is None:
                    target = settled[key] = self._settle(*key)
                states.append(target)
                values.append(value)
                if token is None and target == self._end:
                    return values[-1]
            else:
                last = values[-1] if values else None
                raise UnexpectedToken(token, last if isinstance(last, re.Match) else None)
        raise AssertionError("the table has no end")

    def _settle(self, state: int, origin: str, lookahead: str) -> int:
        """The state after ``origin`` in ``state``, with the unit rules that ``lookahead`` calls for already applied."""
        while True:
            target = self._table[state][origin]
            action = self._table[target].get(lookahead, 0)
            if action >= 0 or not self._rules[-1 - action].is_unit:
                return target
            origin = self._rules[-1 - action].origin

    @staticmethod
    def _reducer(rule: _Rule, actions: object) -> Callable[[list[Any]], Any]:
        """The value of a rule from its children's."""
        if rule.pick is not None:
            pick = rule.pick
            return lambda children: children[pick]
        action: Callable[..., Any] | None = getattr(actions, rule.action) if rule.action else None
        if action is not None and len(rule.kept) == rule.size and not rule.spliced:
            return lambda children: action(*children)

        grows = bool(rule.kept) and rule.kept[0] in rule.spliced

        def general(children: list[Any]) -> Any:
            # A repeated part is a list that grows by one at each step; nobody else has it, so it is not copied.
            flat: list[Any] = children[rule.kept[0]] if grows else []
            for i in rule.kept[1:] if grows else rule.kept:
                if i in rule.spliced:
                    flat.extend(children[i])
                else:
                    flat.append(children[i])
            return flat if action is None else action(*flat)

        return general

    def _tokens(self, text: str) -> Iterator[Token]:
        ignored, depth = self._ignored, 0
        for token in self._scanner.finditer(text):
            kind = token.lastgroup
            if kind in ignored:
                continue
            if kind in _OPENING:
                depth += 1
            elif kind in _CLOSING:
                depth -= 1
            elif kind == self._line_end and depth > 0:
                continue
            elif kind == _NO_TERMINAL:
                raise UnexpectedCharacter(token.start())
            yield token


def make_tables(grammar: str, start: str) -> dict[str, Any]:
    """What lark makes of a grammar, as plain data: states, rules and the expression that finds tokens.

    A state's entry is the state to go to, or minus one minus the number of the rule to reduce.
    """
    from lark import Lark

    built = Lark(grammar, parser="lalr", start=start, maybe_placeholders=False)
    table = built.parser.parser._parse_table
    rules: dict[Any, _Rule] = {rule: _rule(rule) for rule in built.rules}
    number = {rule: i for i, rule in enumerate(rules)}
    first = table.start_states[start]
    order = _breadth_first(table.states, first)
    renumbered = {state: i for i, state in enumerate(order)}
    states = [
        {
            symbol: renumbered[target] if kind.name == "Shift" else -1 - number[target]
            for symbol, (kind, target) in sorted(table.states[state].items())
        }
        for state in order
    ]
    return {
        "grammar": digest(grammar),
        "start": renumbered[first],
        "end": renumbered[table.end_states[start]],
        "rules": [[r.origin, r.size, r.pick, list(r.kept), sorted(r.spliced), r.action] for r in rules.values()],
        "states": states,
        "tokens": _token_pattern(built.terminals),
        "ignored": sorted(built.ignore_tokens),
    }


def _breadth_first(states: Mapping[Any, Any], first: Any) -> list[Any]:
    """States as they are met from the first one, symbols in order: lark's own numbers differ from run to run."""
    order = {first: None}
    waiting = deque([first])
    while waiting:
        for _, (kind, target) in sorted(states[waiting.popleft()].items()):
            if kind.name == "Shift" and target not in order:
                order[target] = None
                waiting.append(target)
    return list(order)


def digest(grammar: str) -> str:
    """What tables are recognised by as those of a grammar."""
    return hashlib.sha256(grammar.encode()).hexdigest()


def _rule(rule: Any) -> _Rule:
    """One of lark's rules as what its reduction does."""
    symbols = rule.expansion
    kept = tuple(i for i, s in enumerate(symbols) if not (s.is_term and s.filter_out))
    spliced = frozenset(i for i in kept if not symbols[i].is_term and symbols[i].name.startswith("_"))
    name = str(rule.alias or rule.origin.name)
    single = rule.options.expand1 and not rule.alias and len(kept) == 1 and not spliced
    action = "" if single or name.startswith("_") else name
    return _Rule(str(rule.origin.name), len(symbols), kept[0] if single else None, kept, spliced, action)


def _token_pattern(terminals: Iterable[Any]) -> str:
    """One expression with a group for each terminal, the more specific ones first, and one for everything else."""
    ordered = sorted(terminals, key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name))
    groups = [f"(?P<{t.name}>{t.pattern.to_regexp()})" for t in ordered]
    return "|".join([*groups, rf"(?P<{_NO_TERMINAL}>[\s\S])"])
