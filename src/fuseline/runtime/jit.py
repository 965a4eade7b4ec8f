"""LLVM text to machine code: verified, compiled for a target, linked into an `Image`.

llvmlite is imported only here and only when something has to be compiled; code that is already in the cache is loaded
without it.
"""

from __future__ import annotations

import _thread
import functools
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from fuseline.codegen.llvm.target import LlvmTarget
from fuseline.errors import CompilerError
from fuseline.ir.garbage import collection_paused
from fuseline.runtime import elf
from fuseline.runtime.image import Image

_LONG_TEXT_LINES = 6000
_INTEGER_DIVISION = re.compile(r" = [su](?:div|rem) <")
_LINES_OF_A_DIVISION = 200
"""What a division of integer vectors counts for: LLVM takes it apart into its elements."""

_PATIENCE_AT_THE_END_S = 1.0
_PATIENCE_AT_THE_START_S = 5.0
"""A thread that has not begun by then never will: it found no memory for its first frame."""
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


_Made = TypeVar("_Made")


def _undisturbed(work: Callable[[], _Made]) -> _Made:
    """``work()`` on a thread where no interrupt from the keyboard falls into it: they come to the main thread alone.

    LLVM's objects have an order in which they are given back, and an exception between two statements breaks it. The
    main thread waits, and an interrupt ends the waiting; what is being compiled then is compiled in vain. Where this
    thread cannot wait for another, it does the work itself.
    """
    if sys.is_finalizing():
        # A thread that was compiling when the end came never goes on, and keeps the lock.
        if not _compiling.acquire(timeout=_PATIENCE_AT_THE_END_S):
            raise CompilerError("no compiled kernel: the interpreter ends while another thread is compiling")
        try:
            return work()
        finally:
            _compiling.release()
    owns_lock: bool = _compiling._is_owned()  # type: ignore[attr-defined]  # as in a handler of forks
    if owns_lock or threading.current_thread() is not threading.main_thread():
        return work()
    results: list[_Made] = []
    errors: list[BaseException] = []
    begun, done = _thread.allocate_lock(), _thread.allocate_lock()
    begun.acquire()
    done.acquire()

    def run() -> None:
        begun.release()
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            errors.append(error)
        finally:
            done.release()

    # A collection on that thread would run finalizers there, which may wait for locks of this one. So would a
    # threading.Thread as it starts, where a handler of signals came in while that module's own lock was held.
    with collection_paused():
        try:
            _thread.start_new_thread(run, ())
        except RuntimeError:  # no thread can be had, as when the interpreter ends
            return work()
        if not begun.acquire(timeout=_PATIENCE_AT_THE_START_S):
            return work()
        done.acquire()
    if errors:
        raise errors[0]
    return results[0]


@contextmanager
def _module(llvm: Any, text: str, target: LlvmTarget) -> Iterator[Any]:
    """The verified module of ``text``."""
    with llvm.create_context() as context:
        try:
            module = llvm.parse_assembly(text, context)
        except RuntimeError as error:
            raise _refusal(error) from error
        with module:
            try:
                module.verify()
            except RuntimeError as error:
                raise _refusal(error) from error
            module.triple = target.triple
            yield module


def _refusal(error: RuntimeError) -> CompilerError:
    return CompilerError(f"LLVM refuses generated text: {error}")


def _clean_up(llvm: Any, module: Any, machine: Any) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    with llvm.create_new_module_pass_manager() as passes, llvm.create_pass_builder(machine, options) as builder:
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
        passes.add_new_gvn_pass()
        passes.add_aggressive_dce_pass()
        passes.run(module, builder)


def _level(text: str) -> int:
    """The code generator's effort. Above 0 its time grows faster than a block's length: ten seconds at 20,000 lines."""
    return 0 if is_long(text) else 2


def is_long(text: str) -> bool:
    """Whether ``text`` is compiled with little effort, which leaves most values in memory."""
    divisions = len(_INTEGER_DIVISION.findall(text))
    return text.count("\n") + divisions * _LINES_OF_A_DIVISION >= _LONG_TEXT_LINES


def compile_text(text: str, target: LlvmTarget, *, clean_up: bool = False) -> Image:
    """Compile LLVM ``text`` for ``target``.

    ``clean_up`` is for text written by hand: it inlines and simplifies. The text of a kernel's body is in its final
    shape already (no value is computed twice, nothing is in memory), and measured no faster after those passes.
    Floating point stays strict: the text carries no fast-math flags and nothing here adds any.
    """
    return elf.link(_emitted(lambda machine, module: machine.emit_object(module), text, target, clean_up=clean_up))


def assembly(text: str, target: LlvmTarget) -> str:
    """The assembly that `compile_text` would turn into machine code."""
    result: str = _emitted(lambda machine, module: machine.emit_assembly(module), text, target)
    return result


def _emitted(emit: Callable[[Any, Any], Any], text: str, target: LlvmTarget, *, clean_up: bool = False) -> Any:
    """What ``emit`` makes of LLVM's target machine and the module of ``text``."""

    def work() -> Any:
        with _compiling:
            llvm = _llvm()
            machine = _target_machine(llvm, target, _level(text))
            with _module(llvm, text, target) as module:
                if clean_up:
                    _clean_up(llvm, module, machine)
                return emit(machine, module)

    return _undisturbed(work)
