"""C11 text: a self-contained file with one function, a statement a value, loops from the plan's nests.

One temporary per value keeps the rounding order and meets no compiler's nesting limit, however long the program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fuseline.codegen.c.primitives import C_TYPES, LIBM, expression, literal
from fuseline.errors import UnsupportedError
from fuseline.excerpts import printable
from fuseline.ir.graph import Graph, topological
from fuseline.ir.node import Node
from fuseline.ir.size import Dim, Shape, names_in
from fuseline.plan.launch import Launch, Plan, fused
from fuseline.plan.loopnest import Access, Loop, LoopNest, Statement, build_nest

_RESERVED_WORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long
register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
bool true false main memcpy asm typeof typeof_unqual linux unix errno signgam math_errhandling alloca strdupa strndupa
fpclassify iscanonical iseqsig isfinite isgreater isgreaterequal isinf isless islessequal islessgreater isnan isnormal
issignaling issubnormal isunordered iszero signbit abs labs llabs
be16toh be32toh be64toh htobe16 htobe32 htobe64 htole16 htole32 htole64 le16toh le32toh le64toh
alignas alignof and and_eq asm bitand bitor catch char8_t char16_t char32_t class compl concept consteval constexpr
constinit const_cast co_await co_return co_yield decltype delete dynamic_cast explicit export friend mutable namespace
new noexcept not not_eq nullptr operator or or_eq private protected public reinterpret_cast requires static_assert
static_cast template this thread_local throw try typeid typename using virtual wchar_t xor xor_eq
"""
"""C's keywords and what its headers define as macros, functions that compilers know, and C++'s keywords: the header may
be read by either."""
_CALLED = LIBM | {"fabs", "fma", "sqrt", "floor", "ceil", "trunc", "rint", "copysign", "fmod"}
_RESERVED = frozenset(_RESERVED_WORDS.split()) | _CALLED | {f"{name}f" for name in _CALLED}
_OTHER_MEANING = re.compile(r"\w+_t|[A-Z][A-Z0-9_]+|M_[A-Z0-9_]+(f[0-9]*x?|l)|i[0-9]*")
"""Names that the headers may hold as types (int64_t) or macros (NULL, NAN, INT8_MAX, M_PIf, FP_ZERO); loop indices."""
_DECLARED_WORDS = """
acos acosh acospi asin asinh asinpi atan atan2 atan2pi atanh atanpi canonicalize cbrt ceil compoundn copysign cos cosh
cospi drem erf erfc exp exp10 exp10m1 exp2 exp2m1 expm1 fabs fdim finite floor fma fmax fmaximum fmaximum_mag
fmaximum_mag_num fmaximum_num fmaxmag fmin fminimum fminimum_mag fminimum_mag_num fminimum_num fminmag fmod frexp fromfp
fromfpx gamma getpayload hypot ilogb isinf isnan j0 j1 jn ldexp lgamma llogb llrint llround log log10 log10p1 log1p log2
log2p1 logb logp1 lrint lround modf nan nearbyint nextafter nextdown nexttoward nextup pow pown powr remainder remquo
rint rootn round roundeven rsqrt scalb scalbln scalbn setpayload setpayloadsig significand sin sincos sinh sinpi sqrt
tan tanh tanpi tgamma totalorder totalordermag trunc ufromfp ufromfpx y0 y1 yn
"""
_FORMAT = r"([fld]|f[0-9]+x?|d[0-9]+x?)"
_DECLARED_BY_MATH = re.compile(
    rf"({'|'.join(_DECLARED_WORDS.split())}){_FORMAT}?(_r)?|{_FORMAT}(add|div|fma|mul|sqrt|sub){_FORMAT}?"
)
_DECLARED_BY_STRING = re.compile(
    r"(mem|str|stp)[a-z]+(_[lr])?|bcmp|bcopy|bzero|r?index|ffsl{0,2}|explicit_bzero|basename|sig(abbrev|descr)_np"
    r"|strerror(name|desc)_np|timingsafe_\w+|rawmemchr|swab"
)
"""Functions that <math.h> and <string.h> declare, in C23 and with extensions: another function cannot have their names,
a variable may."""


@dataclass(frozen=True, slots=True)
class CText:
    """A source file and its header. ``parameters`` are the sizes, inputs and outputs in call order."""

    source: str
    header: str
    function: str
    sizes: tuple[str, ...]
    """The sizes that the int64 parameters are, which come first; ``n`` where the arrays' common length is the caller's.
    A parameter is called by its size unless C has another meaning for the name."""


def emit_c(graph: Graph, name: str = "kernel", note: str = "") -> CText:
    """C for a graph that `legalize` made (functions of the C library are called by name).

    Arrays are contiguous and do not overlap. Raises `UnsupportedError` for programs that need several launches with
    storage between them.
    """
    return _Writer(fused(graph), name, note).text()


class _Writer:
    def __init__(self, plan: Plan, name: str, note: str) -> None:
        self.plan, self.graph, self.note = plan, plan.graph, note
        self.function = _function_name(name)
        self.helpers: dict[str, str] = {}
        self.taken = set(_RESERVED) | {self.function}
        shapes: list[Shape | None] = [n.tensor.shape for n in (*self.graph.inputs, *self.graph.output_nodes)]
        self.count = ("n",) if None in shapes else ()
        """The parameter for the length of arrays whose shape is the caller's."""
        if self.count and any(s for s in shapes):
            raise UnsupportedError(
                "the C text has one length for arrays without a declared shape, which says nothing of how they meet "
                "those with one; declare the shape of every array, or of none"
            )
        self.taken |= set(self.count)
        sizes = sorted({name for s in shapes if s is not None for d in s for name in names_in(d)})
        self.size_names = {size: self.fresh(size) for size in sizes}
        self.pointers: dict[Node, str] = {n: self.fresh(self.graph.label(n)) for n in self.graph.inputs}
        self.outputs: list[tuple[Node, str]] = [(n, self.fresh(name)) for name, n in self.graph.outputs]
        self.places: dict[Node, list[str]] = {}
        """The pointers of the outputs that a value is."""
        for node, pointer in self.outputs:
            self.places.setdefault(node, []).append(pointer)
        self.stored: frozenset[Node] = frozenset()
        """The values that the present loops write."""
        self.locals: dict[Node, str] = {}
        self.lines: list[str] = []

    def text(self) -> CText:
        computed = {n for launch in self.plan.launches for n in launch.nodes}
        crossing = [r for launch in self.plan.launches for r in launch.reads if r in computed]
        if crossing:
            raise UnsupportedError("the C text has one launch; this program needs storage between several")
        for launch in self.plan.launches:
            for nest, self.stored in _nests(launch):
                for item in nest.body:
                    self.write(item, 1)
        prototype = self.prototype()
        body = "\n".join([f"{prototype}\n{{", *self.unread(), *self.lines, "}"])
        includes = "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <string.h>"
        parts = [self.comment(), includes, *(self.helpers[h].rstrip() for h in self.helpers), body]
        sizes = (*self.size_names, *self.count)
        return CText("\n\n".join(parts) + "\n", self.header(prototype), self.function, sizes)

    # ── names ──

    def fresh(self, label: str) -> str:
        base = _identifier(label if not label.isdecimal() else f"t{label}")
        name, k = base, 1
        if base.startswith("fl_") or _OTHER_MEANING.fullmatch(base):  # fl_ begins the text's own functions
            base = name = f"v_{base}"
        while name in self.taken:
            name, k = f"{base}_{k}", k + 1
        self.taken.add(name)
        return name

    def unread(self) -> list[str]:
        """Statements that name the parameters that nothing else names, of which compilers warn."""
        words = {word for line in self.lines for word in re.findall(r"\w+", line)}
        names = (*self.size_names.values(), *self.pointers.values())
        return [f"    (void){name};" for name in names if name not in words]

    def prototype(self) -> str:
        parameters = [f"int64_t {name}" for name in (*self.size_names.values(), *self.count)]
        parameters += [f"const {C_TYPES[n.dtype.name]} *restrict {p}" for n, p in self.pointers.items()]
        parameters += [f"{C_TYPES[n.dtype.name]} *restrict {p}" for n, p in self.outputs]
        return f"void {self.function}({', '.join(parameters) or 'void'})"

    def comment(self) -> str:
        # Neither the end nor a second opening of a comment; and nothing that shows another text than it holds.
        plain = self.note.replace("*/", "* /").replace("/*", "/ *")
        lines = [f" * {printable(line.expandtabs(4))}".rstrip() for line in plain.splitlines()]
        return "\n".join(["/*", *lines, " */"]) if lines else "/* Written by fuseline. */"

    def header(self, prototype: str) -> str:
        guard = f"FUSELINE_{self.function.upper()}_H"
        # C++ has no restrict; the promise of the definition holds for its callers all the same.
        declaration = prototype.replace(" *restrict", " *") + ";"
        includes = "#include <stdbool.h>\n#include <stdint.h>"
        opened, closed = '#ifdef __cplusplus\nextern "C" {\n#endif', "#ifdef __cplusplus\n}\n#endif"
        return "\n".join([f"#ifndef {guard}\n#define {guard}", includes, opened, declaration, closed, "#endif\n"])

    # ── loops ──

    def write(self, item: Loop | Statement, depth: int) -> None:
        """Loops are as deep as the rank of the arrays, so recursion here is bounded."""
        pad = "    " * depth
        if isinstance(item, Statement):
            self.statement(item, pad)
            return
        index = "i" if item.extent is None else f"i{item.index}"
        extent = "n" if item.extent is None else self.dim(item.extent)
        self.lines.append(f"{pad}for (int64_t {index} = 0; {index} < {extent}; ++{index}) {{")
        for inner in item.body:
            self.write(inner, depth + 1)
        self.lines.append(f"{pad}}}")

    def statement(self, statement: Statement, pad: str) -> None:
        node = statement.node
        args = [self.operand(a) for a in statement.reads]
        if statement.is_copy:
            self.store(statement, args[0], pad)
            return
        name = self.fresh(self.graph.label(node))
        self.locals[node] = name
        c = C_TYPES[node.dtype.name]
        self.lines.append(f"{pad}const {c} {name} = {expression(node, args, self.helpers)};")
        if node in self.stored:
            self.store(statement, name, pad)

    def store(self, statement: Statement, value: str, pad: str) -> None:
        """Write a value to the outputs that it is."""
        for pointer in self.places.get(statement.node, ()):
            self.lines.append(f"{pad}{pointer}[{self.index(statement.write)}] = {value};")

    def operand(self, access: Access) -> str:
        node = access.value
        if node.op == "const":
            return literal(node)
        return self.locals.get(node) or f"{self.pointers[node]}[{self.index(access)}]"

    # ── indices ──

    def index(self, access: Access) -> str:
        node_shape = access.value.tensor.shape
        if access.map is None or node_shape is None:
            return "0" if node_shape == () else "i"
        terms = []
        for position, axis in enumerate(access.map.axes):
            if axis.loop is not None:
                stride = self.product(node_shape[position + 1 :])
                terms.append(f"i{axis.loop}" if stride == "1" else f"i{axis.loop} * {stride}")
        return " + ".join(terms) or "0"

    def product(self, dims: Shape) -> str:
        factors = [self.dim(d) for d in dims if d != 1]
        text = " * ".join(factors) or "1"
        return f"({text})" if len(factors) > 1 else text

    def dim(self, dim: Dim) -> str:
        if isinstance(dim, int):
            return str(dim)
        if dim.op == "name":
            return self.size_names[dim.name]
        if dim.op in ("+", "*"):
            return "(" + f" {dim.op} ".join(self.dim(a) for a in dim.args) + ")"
        raise UnsupportedError(f"the C text has no dimension {dim}")


def _nests(launch: Launch) -> Iterator[tuple[LoopNest, frozenset[Node]]]:
    """The loops of a launch with what each of them writes: one nest for the outputs of each shape.

    In a nest over a larger shape an output would be written again and again, and never where that shape is empty.
    """
    computed = set(launch.nodes)
    shapes = dict.fromkeys([n.tensor.shape for n in launch.writes])
    if launch.nest.shape is None or set(shapes) == {launch.nest.shape}:
        yield launch.nest, frozenset(launch.writes)
        return
    for shape in shapes:
        written = dict.fromkeys([n for n in launch.writes if n.tensor.shape == shape])
        needed = set(topological([n for n in written if n in computed]))
        nodes = [n for n in launch.nodes if n in needed]
        yield build_nest(nodes, [n for n in written if n not in computed]), frozenset(written)


def _function_name(name: str) -> str:
    base = _identifier(name)
    meanings = (_OTHER_MEANING, _DECLARED_BY_MATH, _DECLARED_BY_STRING)
    used = base in _RESERVED or base.startswith("fl_") or any(meaning.fullmatch(base) for meaning in meanings)
    return f"{base}_kernel" if used else base


def _identifier(label: str) -> str:
    ascii_only = "".join(c if c.isascii() else f"u{ord(c):04x}" for c in label)
    text = re.sub(r"\W", "_", ascii_only)
    return text if text[:1].isalpha() else f"v{text}"
