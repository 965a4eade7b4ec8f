"""The loops that the probe times: a few lines of LLVM text with vectors of the processor's own width."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

from fuseline.runtime import host
from fuseline.runtime.image import LoadedImage
from fuseline.runtime.jit import compile_text

STREAMS = {"read": (1, 0), "copy": (1, 1), "triad": (2, 1)}
"""Arrays read and written by each kernel of bandwidth."""
ACCUMULATORS = 12
"""Independent chains of fused multiply-adds, more than any processor has under way."""


@functools.cache
def kernels() -> dict[str, Callable[..., int]]:
    """The compiled kernels by name; each returns a number that depends on its work."""
    target = host.host_target()
    names = [*STREAMS, "copy_past", "triad_past", "fma_f32", "fma_f64"]
    image = LoadedImage(compile_text(kernel_text(target.vector_bytes // 4, target.has_fma), target))
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int64)
    image.keep()  # the kernels stay as long as the process
    return {name: prototype(image.exports[name]) for name in names}


def kernel_text(lanes: int, has_fma: bool) -> str:
    """LLVM text of all kernels with vectors of ``lanes`` 32-bit elements; a product and a sum where there is no fma.

    Every kernel is ``i64 (dst, a, b, vectors, repetitions)``; ``vectors`` is a multiple of four. The ones called
    ``…_past`` write past the caches.
    """
    parts = [_stream_text(name, name, lanes, "") for name in STREAMS]
    parts += [_stream_text(f"{name}_past", name, lanes, ", !nontemporal !0") for name in ("copy", "triad")]
    declared = []
    for element, bits in (("float", 32), ("double", 64)):
        width = lanes * 32 // bits
        vector = f"<{width} x {element}>"
        parts.append(_fma_text(element, width, f"fma_f{bits}", has_fma))
        declared.append(f"declare {vector} @llvm.fma.v{width}f{bits}({vector}, {vector}, {vector})")
    return "\n".join([*parts, *(declared if has_fma else []), "!0 = !{i32 1}", ""])


_HEAD = """define i64 @{name}(ptr %dst, ptr %a, ptr %b, i64 %n, i64 %reps) {{
entry:
  br label %outer
outer:
  %r = phi i64 [ 0, %entry ], [ %r1, %after ]
{outer_phi}  br label %inner
inner:
  %i = phi i64 [ 0, %outer ], [ %i1, %inner ]
"""

_TAIL = """  %i1 = add i64 %i, {step}
  %more = icmp ult i64 %i1, %n
  br i1 %more, label %inner, label %after
after:
  %r1 = add i64 %r, 1
  %again = icmp ult i64 %r1, %reps
  br i1 %again, label %outer, label %done
done:
"""


def _stream_text(name: str, kind: str, lanes: int, past: str) -> str:
    """A kernel that reads, copies or adds arrays, four vectors a turn; the read one combines what it read."""
    vector = f"<{lanes} x i32>" if kind != "triad" else f"<{lanes} x float>"
    align = lanes * 4
    body: list[str] = []
    outer_phi = ""
    if kind == "read":
        for j in range(4):
            outer_phi += f"  %s{j} = phi {vector} [ zeroinitializer, %entry ], [ %t{j}, %after ]\n"
            body.append(f"  %c{j} = phi {vector} [ %s{j}, %outer ], [ %t{j}, %inner ]")
    for j in range(4):
        body.append(f"  %i_{j} = add i64 %i, {j}")
        body.append(f"  %pa{j} = getelementptr {vector}, ptr %a, i64 %i_{j}")
        body.append(f"  %x{j} = load {vector}, ptr %pa{j}, align {align}")
        if kind == "read":
            body.append(f"  %t{j} = xor {vector} %c{j}, %x{j}")
            continue
        value = f"%x{j}"
        if kind == "triad":
            body.append(f"  %pb{j} = getelementptr {vector}, ptr %b, i64 %i_{j}")
            body.append(f"  %y{j} = load {vector}, ptr %pb{j}, align {align}")
            body.append(f"  %z{j} = fadd {vector} %x{j}, %y{j}")
            value = f"%z{j}"
        body.append(f"  %pd{j} = getelementptr {vector}, ptr %dst, i64 %i_{j}")
        body.append(f"  store {vector} {value}, ptr %pd{j}, align {align}{past}")
    done = ["  ret i64 %r1"]
    if kind == "read":
        done = [
            f"  %u0 = xor {vector} %t0, %t1",
            f"  %u1 = xor {vector} %t2, %t3",
            f"  %u = xor {vector} %u0, %u1",
            f"  %e = extractelement {vector} %u, i32 0",
            "  %w = zext i32 %e to i64",
            "  ret i64 %w",
        ]
    head = _HEAD.format(name=name, outer_phi=outer_phi)
    return head + "\n".join(body) + "\n" + _TAIL.format(step=4) + "\n".join(done) + "\n}\n"


def _fma_text(element: str, lanes: int, name: str, has_fma: bool) -> str:
    """A kernel of independent chains of fused multiply-adds, ``ACCUMULATORS`` of them a turn."""
    vector = f"<{lanes} x {element}>"
    bits = 32 if element == "float" else 64
    suffix = f"v{lanes}f{bits}"
    outer_phi, body = "", []
    for j in range(ACCUMULATORS):
        outer_phi += f"  %s{j} = phi {vector} [ %o{j}, %entry ], [ %t{j}, %after ]\n"
        body.append(f"  %c{j} = phi {vector} [ %s{j}, %outer ], [ %t{j}, %inner ]")
    for j in range(ACCUMULATORS):
        if has_fma:
            arguments = f"{vector} %c{j}, {vector} %m, {vector} %k"
            body.append(f"  %t{j} = call {vector} @llvm.fma.{suffix}({arguments})")
        else:
            body.append(f"  %p{j} = fmul {vector} %c{j}, %m")
            body.append(f"  %t{j} = fadd {vector} %p{j}, %k")
    load = f"  %m = load {vector}, ptr %a, align 4\n  %k = load {vector}, ptr %b, align 4\n"
    for j in range(ACCUMULATORS):  # starts of their own, or the chains would be one
        load += f"  %q{j} = getelementptr {vector}, ptr %b, i64 {j + 1}\n  %o{j} = load {vector}, ptr %q{j}, align 4\n"
    head = _HEAD.format(name=name, outer_phi=outer_phi).replace("entry:\n", "entry:\n" + load, 1)
    done = [f"  %f0 = fadd {vector} %t0, %t1"]
    for j in range(2, ACCUMULATORS):
        done.append(f"  %f{j - 1} = fadd {vector} %f{j - 2}, %t{j}")
    done.append(f"  %e = extractelement {vector} %f{ACCUMULATORS - 2}, i32 0")
    done.append(f"  %w = bitcast {element} %e to i{bits}")
    done.append("  %v = zext i32 %w to i64" if bits == 32 else "  %v = add i64 %w, 0")
    done.append("  ret i64 %v")
    return head + "\n".join(body) + "\n" + _TAIL.format(step=1) + "\n".join(done) + "\n}\n"
