"""LLVM text to machine code: verified, compiled for a target, linked into an `Image`.

llvmlite is imported only here and only when something has to be compiled; code that is already in the cache is loaded
without it.
"""

from __future__ import annotations

import functools
import os
import struct
import threading
from dataclasses import replace
from typing import Any

from ..codegen.llvm.body import SYMBOL
from ..codegen.llvm.stack import INSIDE_SYMBOL, SIZE_SYMBOL, on_own_stack
from ..codegen.llvm.target import LlvmTarget
from ..errors import CompilerError
from . import elf, frame
from .image import Image

_LONG_TEXT_LINES = 6000
_LARGEST_FRAME_BYTES = 64 << 10
"""Of the caller's stack for a body; one that needs more gets memory of its own, at a microsecond or two a call."""
_SPARE_STACK_BYTES = 256 << 10
"""For what a body calls, and for handlers of signals."""

_compiling = threading.RLock()
"""Held around all use of LLVM, which llvmlite allows one thread at a time anyway. A fork waits for it, so that a child
never finds LLVM in the middle of something."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_compiling.acquire, after_in_parent=_compiling.release, after_in_child=_compiling.release
    )


@functools.cache
def _llvm() -> Any:
    """llvmlite's binding with the code generators set up."""
    try:
        import llvmlite.binding as llvm
    except ImportError as error:
        raise CompilerError(f"compiling needs llvmlite ({error}); install it with: pip install llvmlite") from error
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


@functools.cache
def _target_machine(llvm: Any, target: LlvmTarget, level: int) -> Any:
    cpu, features = target.cpu, target.features
    if cpu == "native":
        cpu = llvm.get_host_cpu_name()
        features = ",".join(filter(None, [llvm.get_host_cpu_features().flatten(), features]))
    handle = llvm.Target.from_triple(target.triple)
    return handle.create_target_machine(cpu=cpu, features=features, opt=level, reloc="pic", codemodel="small")


def _module(llvm: Any, text: str, machine: Any, target: LlvmTarget, clean_up: bool) -> Any:
    context = llvm.create_context()
    try:
        module = llvm.parse_assembly(text, context)
        module.verify()
    except RuntimeError as error:
        raise CompilerError(f"LLVM refuses generated text: {error}") from error
    module.triple = target.triple
    if clean_up:
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
        passes.add_new_gvn_pass()
        passes.add_aggressive_dce_pass()
        passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2)))
    return module


def _level(text: str) -> int:
    """The code generator's effort. Above 0 its time grows faster than a block's length: ten seconds at 20,000 lines."""
    return 0 if _is_long(text) else 2


def _is_long(text: str) -> bool:
    return text.count("\n") >= _LONG_TEXT_LINES


def compile_text(text: str, target: LlvmTarget, *, clean_up: bool = False) -> Image:
    """Compile LLVM ``text`` for ``target``.

    ``clean_up`` is for text written by hand: it inlines and simplifies. The text of a kernel's body is in its final
    shape already (no value is computed twice, nothing is in memory), and measured no faster after those passes.
    Floating point stays strict: the text carries no fast-math flags and nothing here adds any.
    """
    is_body = f"define void @{SYMBOL}(" in text
    if is_body and _is_long(text):
        return _on_own_stack(text, target)
    image = _compiled(text, target, clean_up)
    if is_body and frame.frame_bytes(image, SYMBOL, target.architecture) > _LARGEST_FRAME_BYTES:
        return _on_own_stack(text, target)
    return image


def _on_own_stack(text: str, target: LlvmTarget) -> Image:
    image = _compiled(on_own_stack(text, target.architecture), target, clean_up=False)
    needed = frame.frame_bytes(image, INSIDE_SYMBOL, target.architecture)
    code = bytearray(image.code)
    struct.pack_into("<Q", code, image.exports[SIZE_SYMBOL], needed + _SPARE_STACK_BYTES)
    return replace(image, code=bytes(code))


def _compiled(text: str, target: LlvmTarget, clean_up: bool) -> Image:
    with _compiling:
        llvm = _llvm()
        machine = _target_machine(llvm, target, _level(text))
        emitted = machine.emit_object(_module(llvm, text, machine, target, clean_up))
    return elf.link(emitted)


def assembly(text: str, target: LlvmTarget) -> str:
    """The assembly that `compile_text` would turn into machine code."""
    with _compiling:
        llvm = _llvm()
        machine = _target_machine(llvm, target, _level(text))
        result: str = machine.emit_assembly(_module(llvm, text, machine, target, clean_up=False))
    return result
