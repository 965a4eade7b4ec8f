"""Work behind a branch: what only the rare operand of a `where` needs is computed only where some lane takes it."""

from __future__ import annotations

from fuseline.codegen.llvm import instructions
from fuseline.codegen.llvm.order import RareWork
from fuseline.codegen.llvm.writer import Writer


def write(w: Writer, work: RareWork) -> None:
    """A branch around the rare instructions, and the choices as the values that meet behind it."""
    condition = w.value(work.choices[0].args[0])
    common = [w.value(c.args[2]) for c in work.choices]
    taken = w.call(f"llvm.vector.reduce.or.v{w.lanes}i1", "i1", [(f"<{w.lanes} x i1>", condition)])
    before, label = w.block, w.new_name()
    w.lines += [f"  br i1 {taken}, label %rare{label}, label %join{label}, !prof !1", f"rare{label}:"]
    w.block = f"rare{label}"
    for item in work.instructions:
        if isinstance(item, RareWork):
            write(w, item)
        else:
            w.values[item] = instructions.write(w, item)
    chosen = [instructions.write(w, c) for c in work.choices]
    w.lines += [f"  br label %join{label}", f"join{label}:"]
    for choice, rare, usual in zip(work.choices, chosen, common, strict=True):
        kind = w.type(choice.dtype)
        w.values[choice] = w.assign(f"phi {kind} [ {rare}, %{w.block} ], [ {usual}, %{before} ]")
    w.block = f"join{label}"
