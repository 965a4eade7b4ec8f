"""Bodies whose values fill more stack than a thread may have: they run on memory of their own.

A body keeps what does not fit registers in its stack frame, which grows with the number of values that wait. Threads
have 8 MiB of stack on most systems, and as little as 64 KiB where a program or a system asks for that.
"""

from __future__ import annotations

from fuseline.codegen.llvm.symbols import INSIDE_SYMBOL, SIZE_SYMBOL, SYMBOL

# switch(end of the stack, function, and its four arguments), as machine code: LLVM reads assembly only of the machine
# that it runs on.
_SWITCHES = {
    "x86_64": (
        "53"  # push rbx
        "4889e3"  # mov rbx, rsp
        "4889fc"  # mov rsp, rdi
        "4889f0"  # mov rax, rsi
        "4889d7"  # mov rdi, rdx
        "4889ce"  # mov rsi, rcx
        "4c89c2"  # mov rdx, r8
        "4c89c9"  # mov rcx, r9
        "ffd0"  # call rax
        "4889dc"  # mov rsp, rbx
        "5b"  # pop rbx
        "c3"  # ret
    ),
    "aarch64": (
        "fd7bbea9"  # stp x29, x30, [sp, #-32]!
        "f30b00f9"  # str x19, [sp, #16]
        "f3030091"  # mov x19, sp
        "1f000091"  # mov sp, x0
        "e90301aa"  # mov x9, x1
        "e00302aa"  # mov x0, x2
        "e10303aa"  # mov x1, x3
        "e20304aa"  # mov x2, x4
        "e30305aa"  # mov x3, x5
        "20013fd6"  # blr x9
        "7f020091"  # mov sp, x19
        "f30b40f9"  # ldr x19, [sp, #16]
        "fd7bc2a8"  # ldp x29, x30, [sp], #32
        "c0035fd6"  # ret
    ),
}


def on_own_stack(text: str, architecture: str) -> str:
    """The text of a body behind a function of its name that gives it a stack, unless the size of that stays 0.

    It calls ``fl_take`` and ``fl_give`` of runtime/native/reserve.ll for that, which have memory set aside where the
    system has none: whoever loads the code sees to it that this is enough.
    """
    switch = bytes.fromhex(_SWITCHES[architecture])
    code = ", ".join(f"i8 {byte}" for byte in switch)
    body = text.replace(f"define void @{SYMBOL}(", f"define hidden void @{INSIDE_SYMBOL}(")
    return f"""{body}
@{SIZE_SYMBOL} = hidden constant i64 0
@switch = private constant [{len(switch)} x i8] [{code}], align 16
declare ptr @fl_take(i64)
declare void @fl_give(ptr)
define void @{SYMBOL}(ptr %operands, ptr %increments, i64 %vectors, i64 %flags) nounwind {{
  %size = load volatile i64, ptr @{SIZE_SYMBOL}
  %none = icmp eq i64 %size, 0
  br i1 %none, label %callers_stack, label %own_stack
own_stack:
  %memory = call ptr @fl_take(i64 %size)
  %end = getelementptr i8, ptr %memory, i64 %size
  %address = ptrtoint ptr %end to i64
  %aligned = and i64 %address, -64
  %stack = inttoptr i64 %aligned to ptr
  call void @switch(ptr %stack, ptr @{INSIDE_SYMBOL}, ptr %operands, ptr %increments, i64 %vectors, i64 %flags)
  call void @fl_give(ptr %memory)
  ret void
callers_stack:
  tail call void @{INSIDE_SYMBOL}(ptr %operands, ptr %increments, i64 %vectors, i64 %flags)
  ret void
}}
"""
