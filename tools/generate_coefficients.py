"""Write `src/fuseline/mathlib/coefficients.py`: the polynomials of mathlib, each with its certificate.

A fit minimises the largest weighted error over an interval (weighted least squares on Chebyshev nodes, Lawson's
reweighting), then rounds one coefficient after another, lowest power first, to the working format and refits the rest
each time, so that later coefficients absorb the rounding of earlier ones. The certificate is the largest weighted error
of the rounded polynomial, found on a dense grid and refined at every local extremum, in multiprecision.

    python tools/generate_coefficients.py            # all, a few minutes
    python tools/generate_coefficients.py EXP_F32    # print one, write nothing
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import mpmath as mp
from coefficient_specifications import (
    ATANH_RECIPROCALS_IN_64THS,
    CELL_RECIPROCALS_IN_32NDS,
    CELLS,
    CONSTANTS,
    FITS,
    PIECES,
    RECIPROCALS,
    Cells,
    Constant,
    Fit,
    Pieces,
    Reciprocals,
)

TARGET = Path(__file__).resolve().parents[1] / "src" / "fuseline" / "mathlib" / "coefficients.py"
LAWSON_STEPS = 14
DIGITS = 70
NODES_TRIED = 2000


@dataclass(frozen=True)
class Result:
    """A fit's rounded coefficients and the largest weighted error, with where it is."""

    coefficients: tuple[float, ...]
    error: mp.mpf
    where: mp.mpf


def round_to(value: mp.mpf, bits: int) -> mp.mpf:
    """``value`` rounded to nearest with ``bits`` significant bits."""
    with mp.workprec(bits):
        rounded = +mp.mpf(value)
    return mp.mpf(rounded)


def chebyshev_nodes(low: mp.mpf, high: mp.mpf, count: int) -> list[mp.mpf]:
    """Nodes of the Chebyshev polynomial of degree ``count`` on an interval."""
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle + half * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def least_squares(
    rows: Sequence[Sequence[mp.mpf]], target: Sequence[mp.mpf], weights: Sequence[mp.mpf]
) -> list[mp.mpf]:
    """The solution of the weighted normal equations; 70 digits leave room for their squared condition number."""
    n = len(rows[0])
    a = mp.matrix(n, n)
    b = mp.matrix(n, 1)
    for row, t, w in zip(rows, target, weights, strict=True):
        scaled = [w * r for r in row]
        for i in range(n):
            b[i] += scaled[i] * t
            for j in range(i, n):
                a[i, j] += scaled[i] * row[j]
    for i in range(n):
        for j in range(i):
            a[i, j] = a[j, i]
    return list(mp.lu_solve(a, b))


def evaluate(coefficients: Sequence[mp.mpf], x: mp.mpf) -> mp.mpf:
    """The polynomial's value, constant term first."""
    total = mp.mpf(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def fit(spec: Fit) -> Result:
    """Fit, round and certify one polynomial."""
    low, high = mp.mpf(spec.interval[0]), mp.mpf(spec.interval[1])
    nodes = chebyshev_nodes(low, high, 5 * (spec.degree + 3))
    values = [spec.function(x) for x in nodes]
    sizes = [abs(spec.weight(x)) for x in nodes]
    rows = [[s * x**k for k in range(spec.degree + 1)] for x, s in zip(nodes, sizes, strict=True)]
    target = [v * s for v, s in zip(values, sizes, strict=True)]
    weights = [mp.mpf(1)] * len(nodes)
    for _ in range(LAWSON_STEPS):
        c = least_squares(rows, target, weights)
        errors = [abs(mp.fdot(r, c) - t) for r, t in zip(rows, target, strict=True)]
        scale = mp.fdot(weights, errors)
        weights = [w * (e / scale + mp.mpf("1e-4") / len(nodes)) for w, e in zip(weights, errors, strict=True)]
        total = mp.fsum(weights)
        weights = [w / total for w in weights]
    rounded = round_greedily(spec, rows, target, weights)
    error, where = certify(spec, rounded)
    return Result(tuple(float(c) for c in rounded), error, where)


def round_greedily(spec: Fit, rows: list[list[mp.mpf]], target: list[mp.mpf], weights: list[mp.mpf]) -> list[mp.mpf]:
    """Round coefficients from the lowest power up, refitting the remaining ones after each."""
    rounded: list[mp.mpf] = []
    rest = list(target)
    for k in range(spec.degree + 1):
        free = [row[k:] for row in rows]
        c = round_to(least_squares(free, rest, weights)[0], spec.precision_of(k))
        rounded.append(c)
        rest = [t - row[k] * c for t, row in zip(rest, rows, strict=True)]
    return rounded


def certify(spec: Fit, coefficients: Sequence[mp.mpf]) -> tuple[mp.mpf, mp.mpf]:
    """The largest weighted error and where it is: a dense grid, refined by ternary search around each local maximum."""
    low, high = mp.mpf(spec.interval[0]), mp.mpf(spec.interval[1])

    def error(x: mp.mpf) -> mp.mpf:
        return abs(spec.weight(x) * (evaluate(coefficients, x) - spec.function(x)))

    count = 16 * (spec.degree + 3)
    nodes = [low, *reversed(chebyshev_nodes(low, high, count)), high]
    if spec.singular_at_zero:
        nodes = [x for x in nodes if x != 0]
    sampled = [error(x) for x in nodes]
    best, where = max((e, x) for e, x in zip(sampled, nodes, strict=True))
    for i in range(1, len(nodes) - 1):
        if sampled[i] >= sampled[i - 1] and sampled[i] >= sampled[i + 1] and sampled[i] > best / 2:
            peak, at = refine(error, nodes[i - 1], nodes[i + 1])
            if peak > best:
                best, where = peak, at
    return best, where


def refine(error: Callable[[mp.mpf], mp.mpf], left: mp.mpf, right: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    """The maximum of a function with one peak between ``left`` and ``right``."""
    for _ in range(30):
        third = (right - left) / 3
        a, b = left + third, right - third
        if error(a) < error(b):
            left = a
        else:
            right = b
    at = (left + right) / 2
    return error(at), at


# ── pieces ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def tuned_node(spec: Pieces, cell: int) -> tuple[mp.mpf, mp.mpf]:
    """A float near the node of ``cell`` where the function is closest to a float of its own, and that value."""
    center = mp.mpf(spec.nodes[cell])
    if center == 0:
        return center, center
    step = mp.mpf(2) ** (mp.frexp(center)[1] - spec.bits)
    # Neighbouring float64 are so close that the function may hardly differ.
    step = max(step, (mp.mpf(spec.edges[cell + 1]) - mp.mpf(spec.edges[cell])) * spec.searched / NODES_TRIED)
    with mp.workdps(DIGITS // 2):
        first = round_to(center, spec.bits)
        nodes = [round_to(first + i * step, spec.bits) for i in range(-NODES_TRIED, NODES_TRIED)]
        values = [spec.function(n) for n in nodes]
        misses = [abs(round_to(v, spec.bits) - v) / v for v in values]
    best = misses.index(min(misses))
    return nodes[best], round_to(values[best], spec.bits)


def pieces_text(spec: Pieces) -> str:
    """The generated lines of a function by pieces: nodes, heads, and for each power the coefficients of all cells."""
    places = [tuned_node(spec, cell) for cell in range(len(spec.nodes))]
    fits = [spec.fit(i, node) for i, (node, _) in enumerate(places)]
    results = [fit(f) for f in fits]
    last = max(abs(spec.function(n) - h) / h if h else h for n, h in places)
    lines = [f"# {spec.name}: {spec.doc} by pieces; heads are rounded by at most {mp.nstr(last, 3)} of themselves"]
    for f, result in zip(fits, results, strict=True):
        low, high = (mp.nstr(mp.mpf(v), 6) for v in f.interval)
        bound = mp.nstr(mp.log(result.error, 2), 5)
        lines.append(f"# {f.doc} on [{low}, {high}], weight {f.weight_text}: largest error 2**{bound}")
    rows = zip(*(r.coefficients for r in results), strict=True)
    text = "\n".join(lines) + "\n"
    text += f"{spec.name}_NODES = (\n{hexes([float(n) for n, _ in places])})\n"
    text += f"{spec.name}_HEADS = (\n{hexes([float(h) for _, h in places])})\n"
    return (
        text + f"{spec.name}_TERMS = (\n" + "".join(f"    (\n{hexes(row, 8 * ' ')}    ),\n" for row in rows) + ")\n\n"
    )


def tuned_reciprocal(spec: Reciprocals, k: int) -> mp.mpf:
    """Of the floats near 1/(1 + k/last) that fit the cell, the one whose logarithm is closest to a float."""
    if k == 0:
        return mp.mpf(1)
    first, step = round_to(1 / (1 + mp.mpf(k) / spec.last), spec.bits), mp.mpf(2) ** -spec.bits
    with mp.workdps(DIGITS // 2):
        tried = [c for i in range(-NODES_TRIED, NODES_TRIED) if spec.fits(k, c := first + i * step)]
        misses = [abs(round_to(mp.log(c), spec.bits) - mp.log(c)) for c in tried]
    return tried[misses.index(min(misses))]


def reciprocals_text(spec: Reciprocals) -> str:
    """The generated lines of a table of reciprocals and of their logarithms."""
    chosen = [tuned_reciprocal(spec, k) for k in range(spec.last + 1)]
    logarithms = [round_to(-mp.log(c), spec.bits) for c in chosen]
    last = max(abs(value + mp.log(c)) for value, c in zip(logarithms, chosen, strict=True))
    return (
        f"# {spec.name}: floats c near 1/(1 + k/{spec.last}), and -log(c), rounded by at most {mp.nstr(last, 3)}\n"
        f"{spec.name}_RECIPROCALS = (\n{hexes([float(c) for c in chosen])})\n"
        f"{spec.name}_LOGARITHMS = (\n{hexes([float(v) for v in logarithms])})\n\n"
    )


def cells_text(spec: Cells) -> str:
    """The generated lines of the logarithms of cells, each in two parts."""
    values = [mp.log(mp.mpf(spec.denominator) / n) / spec.scale() for n in spec.numerators]
    heads = [round_to(v, spec.first_bits) for v in values]
    rests = [round_to(v - h, spec.bits) for v, h in zip(values, heads, strict=True)]
    last = max(abs(v - h - r) for v, h, r in zip(values, heads, rests, strict=True))
    return (
        f"# {spec.name}: {spec.doc}({spec.denominator}/n) for each cell, first parts of {spec.first_bits} bits, "
        f"rests rounded by at most {mp.nstr(last, 3)}\n"
        f"{spec.name}_HEADS = (\n{hexes([float(h) for h in heads])})\n"
        f"{spec.name}_RESTS = (\n{hexes([float(r) for r in rests])})\n\n"
    )


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────

HEADER = '''"""Coefficients and split constants of mathlib. Generated by tools/generate_coefficients.py: do not edit.

Each polynomial is listed constant term first. Its comment is the certificate: what is approximated, on which interval,
under which weight, and the largest weighted error of the rounded polynomial as found in multiprecision.
"""

from __future__ import annotations

'''


NUMERATORS = (
    f"CELL_RECIPROCALS_IN_32NDS = {CELL_RECIPROCALS_IN_32NDS}\n"
    '"""Numerators n of the reciprocals n/32 of the cells of a logarithm\'s argument."""\n'
    f"ATANH_RECIPROCALS_IN_64THS = {ATANH_RECIPROCALS_IN_64THS}\n"
    '"""Those of the reciprocals n/64 of the cells of (1 + x)/(1 - x), for atanh."""\n\n'
)


def hexes(values: Sequence[float], indent: str = "    ") -> str:
    """The numbers, exactly, as arguments."""
    return "".join(f'{indent}_h("{float(v).hex()}"),\n' for v in values)


def polynomial_text(spec: Fit, result: Result) -> str:
    """The generated lines of one polynomial."""
    bound = mp.nstr(mp.log(result.error, 2), 5)
    low, high = (mp.nstr(mp.mpf(v), 8) for v in spec.interval)
    return (
        f"# {spec.name}: {spec.doc}\n"
        f"# interval [{low}, {high}], degree {spec.degree}, {spec.bits}-bit coefficients, weight {spec.weight_text},\n"
        f"# largest weighted error {mp.nstr(result.error, 4)} = 2**{bound} at {mp.nstr(result.where, 6)}\n"
        f"{spec.name} = (\n{hexes(result.coefficients)})\n\n"
    )


def constant_text(spec: Constant) -> str:
    """The generated lines of one split constant."""
    mp.mp.dps = 400
    remaining = spec.value()
    parts: list[float] = []
    for bits in spec.bits:
        part = round_to(remaining, bits)
        parts.append(float(part))
        remaining -= part
    mp.mp.dps = DIGITS
    left = mp.nstr(abs(remaining), 3)
    lead = f"# {spec.name}: {spec.doc}; parts of {', '.join(map(str, spec.bits))} bits, remainder {left}\n"
    return lead + (f"{spec.name} = (\n{hexes(parts)})\n\n")


def text_of(spec: Fit | Pieces | Reciprocals | Cells) -> str:
    """The generated lines of what is named in the specifications."""
    if isinstance(spec, Fit):
        return polynomial_text(spec, fit(spec))
    if isinstance(spec, Cells):
        return cells_text(spec)
    return pieces_text(spec) if isinstance(spec, Pieces) else reciprocals_text(spec)


def main(names: Sequence[str]) -> int:
    """Generate everything, or print the fits that are named."""
    mp.mp.dps = DIGITS
    chosen = [spec for spec in (*FITS, *PIECES, *RECIPROCALS, *CELLS) if not names or spec.name in names]
    blocks = [] if names else [NUMERATORS, *map(constant_text, CONSTANTS)]
    for spec in chosen:
        block = text_of(spec)
        blocks.append(block)
        print(block.split("_h(")[0].strip(), flush=True)
        if names:
            print(block)
    if not names:
        helper = "\n_h = float.fromhex\n\n"
        TARGET.write_text(HEADER.rstrip() + "\n" + helper + "\n".join(b.rstrip() + "\n" for b in blocks))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
