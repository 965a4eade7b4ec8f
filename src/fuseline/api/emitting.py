"""A program as text: for other compilers (NumPy calls, C, LLVM IR, assembly), or for reading (its graph, its loops)."""

from __future__ import annotations

from typing import NamedTuple

from fuseline.codegen.targets import EMIT_TARGETS, Functions
from fuseline.errors import TypeRuleError, UnknownNameError, UnsupportedError
from fuseline.floating_point import in_default_environment
from fuseline.ir.graph import Graph


class Emitted(NamedTuple):
    """The text of a program. ``axes_unknown`` says that reductions share no loops in it because the axes that they go
    over are not known (the target nest alone)."""

    text: str
    axes_unknown: bool = False


@in_default_environment
def emit_text(
    graph: Graph, target: str, name: str, *, functions: Functions = "own", header: bool = False, note: str | None = None
) -> Emitted:
    """An optimised graph in one of ``EMIT_TARGETS``, as a function called ``name`` where the target has functions.

    For the target c, ``functions`` says whose exp and tanh it uses, ``header`` asks for the header instead, and
    ``note`` goes into its opening comment (the name and the graph unless given).

    Raises `UnknownNameError` for another target, `UnsupportedError` for options of another target and for a program
    that the target cannot express.
    """
    if not isinstance(target, str) or target not in EMIT_TARGETS:
        *others, last = EMIT_TARGETS
        raise UnknownNameError(f"no target is called {target!r}; there are {', '.join(others)} and {last}")
    if not isinstance(functions, str) or functions not in ("own", "libm"):
        raise UnknownNameError(f"functions are 'own' or 'libm', not {functions!r:.60}")
    if not isinstance(header, bool):
        raise TypeRuleError(f"header is True or False, not {header!r:.60}")
    for option, given in ((f"functions {functions}", functions != "own"), ("a header", header)):
        if given and target != "c":
            raise UnsupportedError(f"{option} can be asked for only with --target c (the target c in Python)")
    match target:
        case "numpy" | "numpy-planned":
            from fuseline.codegen.numpy import emit_numpy

            return Emitted(emit_numpy(graph, name, planned=target == "numpy-planned"))
        case "c":
            from fuseline.codegen.c import emit_program

            text = emit_program(graph, name, functions, note=f"{name}\n\n{graph}" if note is None else note)
            return Emitted(text.header if header else text.source)
        case "llvm" | "asm":
            return Emitted(_code(graph, target))
        case "graph":
            return Emitted(str(graph))
    return _nests(graph)


def _code(graph: Graph, target: str) -> str:
    """LLVM IR, or the assembly that LLVM makes of it here."""
    from fuseline.runtime.generate import assembly_text, llvm_text
    from fuseline.runtime.host import host_target

    return llvm_text(graph, host_target()).text if target == "llvm" else assembly_text(graph)


def _nests(graph: Graph) -> Emitted:
    """The loops of each launch; a program of several launches numbers them."""
    from fuseline.ops import OPERATIONS
    from fuseline.plan.launch import fused
    from fuseline.plan.loopnest import nest_text

    launches = fused(graph).launches
    texts = [nest_text(graph, launch.nest) for launch in launches]
    if len(texts) == 1:
        return Emitted(texts[0])
    reduced = [n.args[0] for n in graph.nodes if OPERATIONS[n.op].index_rule == "reduction"]
    numbered = "\n".join(f"launch {number}:\n{text}" for number, text in enumerate(texts))
    return Emitted(numbered, axes_unknown=any(n.tensor.shape is None for n in reduced))
