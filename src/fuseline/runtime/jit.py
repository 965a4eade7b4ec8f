"""LLVM text to machine code: verified, lightly optimised, compiled for a target, linked into an `Image`.

llvmlite is imported only here and only when something has to be compiled; code that is already in the cache is loaded
without it.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

from ..codegen.llvm.target import LlvmTarget
from ..errors import CompilerError
from . import elf
from .image import Image

_initialise_lock = threading.Lock()


@functools.cache
def _llvm() -> Any:
    """llvmlite's binding with the code generators set up."""
    try:
        import llvmlite.binding as llvm
    except ImportError as error:
        raise CompilerError(f"compiling needs llvmlite ({error}); install it with: pip install llvmlite") from error
    with _initialise_lock:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm


def _target_machine(llvm: Any, target: LlvmTarget, level: int) -> Any:
    cpu, features = target.cpu, target.features
    if cpu == "native":
        cpu = llvm.get_host_cpu_name()
        features = ",".join(filter(None, [llvm.get_host_cpu_features().flatten(), features]))
    handle = llvm.Target.from_triple(target.triple)
    return handle.create_target_machine(cpu=cpu, features=features, opt=level, reloc="pic", codemodel="small")


def _optimised_module(llvm: Any, text: str, machine: Any, target: LlvmTarget) -> Any:
    """The module after the light pipeline. Kernel text is already in its final shape, so a few clean-ups are all."""
    context = llvm.create_context()
    try:
        module = llvm.parse_assembly(text, context)
    except RuntimeError as error:
        raise CompilerError(f"LLVM refuses generated text: {error}") from error
    module.triple = target.triple
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    passes = llvm.create_new_module_pass_manager()
    passes.add_verifier()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_new_gvn_pass()
    passes.add_aggressive_dce_pass()
    passes.run(module, builder)
    return module


def compile_text(text: str, target: LlvmTarget, *, level: int = 2) -> Image:
    """Compile LLVM ``text`` for ``target``; ``level`` is the code generator's effort (0 to 3).

    Floating point stays strict: the text carries no fast-math flags and nothing here adds any.
    """
    llvm = _llvm()
    machine = _target_machine(llvm, target, level)
    return elf.link(machine.emit_object(_optimised_module(llvm, text, machine, target)))


def assembly(text: str, target: LlvmTarget, *, level: int = 2) -> str:
    """The assembly that `compile_text` would turn into machine code."""
    llvm = _llvm()
    machine = _target_machine(llvm, target, level)
    result: str = machine.emit_assembly(_optimised_module(llvm, text, machine, target))
    return result
