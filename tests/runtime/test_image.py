"""Objects become images, images become executable memory, and memory is returned."""

from __future__ import annotations

import ctypes
import gc
import math
import struct

import numpy as np
import pytest

from fuseline.codegen.llvm.body import body_text
from fuseline.codegen.llvm.symbols import SYMBOL
from fuseline.codegen.llvm.target import target
from fuseline.errors import CompilerError
from fuseline.ir.build import Expr, call, input_node
from fuseline.ir.dtype import F64
from fuseline.ir.graph import Graph
from fuseline.runtime import elf, host, iterate, jit, native
from fuseline.runtime.image import Image, LoadedImage, symbol_address
from kernels import loop_of, multiply_add_graph
from process_facts import mappings

NAMES = ("x86-64", "x86-64-v3", "aarch64")


def image_of(text: str, name: str = "") -> Image:
    return jit.compile_text(text, target(name) if name else host.host_target())


def test_an_image_survives_its_serialisation() -> None:
    image = jit.compile_text(native.text(host.host_target()), host.host_target(), clean_up=True)
    again = Image.from_bytes(image.to_bytes())
    assert again == image
    assert image.imports and image.exports


def with_head(head: bytes) -> bytes:
    return b"FLIMG001" + struct.pack("<II", len(head), 0) + head


@pytest.mark.parametrize("data", [b"", b"hello", b"FLIMG001" + b"\xff" * 8, b"FLIMG001" + bytes(7)])
def test_bytes_that_are_no_image_are_refused(data: bytes) -> None:
    with pytest.raises(CompilerError):
        Image.from_bytes(data)


@pytest.mark.parametrize(
    "head",
    [b"", b"{", b"\xff", b"[]", b"{}", b'{"exports": [], "imports": {}, "bases": []}', b'{"exports": {"a": null}}',
     b'{"exports": {}, "imports": {"f": 3}, "bases": []}', b'{"exports": {}, "imports": {}, "bases": [[1]]}'],
)  # fmt: skip
def test_an_image_with_a_damaged_head_is_refused(head: bytes) -> None:
    with pytest.raises(CompilerError, match="damaged head"):
        Image.from_bytes(with_head(head))


@pytest.mark.parametrize(
    "data", [b"", b"MZ" + bytes(100), b"\x7fELF\x01\x01" + bytes(100), b"\x7fELF\x02\x01" + bytes(100)]
)
def test_objects_of_other_kinds_are_refused(data: bytes) -> None:
    with pytest.raises(CompilerError):
        elf.link(data)


def test_state_in_a_kernel_is_refused() -> None:
    with pytest.raises(CompilerError, match="stateless"):
        image_of("@count = global i64 1\ndefine ptr @f() { ret ptr @count }")


def test_text_that_llvm_refuses_is_a_compiler_error_that_says_so() -> None:
    with pytest.raises(CompilerError, match="LLVM refuses"):
        image_of("define void @f( {")


def test_missing_c_functions_are_named_when_the_code_is_loaded() -> None:
    image = image_of(
        "declare void @no_such_function()\ndefine void @f() {\n call void @no_such_function()\n ret void\n}"
    )
    with pytest.raises(CompilerError, match="no_such_function"):
        LoadedImage(image)
    assert symbol_address("cos") != 0


def test_calls_of_c_functions_reach_them() -> None:
    body = "%y = call double @cos(double %x)\n ret double %y"
    text = f"declare double @cos(double)\ndefine double @f(double %x) {{\n {body}\n}}"
    loaded = LoadedImage(image_of(text))
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(loaded.exports["f"])(1.0) == math.cos(1.0)


def test_constants_addresses_and_jump_tables_are_relocated() -> None:
    text = """
    @numbers = private unnamed_addr constant [4 x i64] [i64 10, i64 20, i64 30, i64 40], align 64
    @where = constant ptr getelementptr (i8, ptr @numbers, i64 16)
    define i64 @pick(i64 %i) {
      %at = getelementptr i64, ptr @numbers, i64 %i
      %v = load i64, ptr %at
      ret i64 %v
    }
    define i64 @choose(i64 %i) {
      switch i64 %i, label %other [ i64 0, label %a i64 1, label %b i64 2, label %c i64 3, label %d i64 4, label %e ]
    a: ret i64 7
    b: ret i64 11
    c: ret i64 1000003
    d: ret i64 -5
    e: ret i64 64
    other: ret i64 0
    }
    """
    loaded = LoadedImage(image_of(text))
    pick, choose = (ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded.exports[n]) for n in ("pick", "choose"))
    assert [pick(i) for i in range(4)] == [10, 20, 30, 40]
    assert [choose(i) for i in range(6)] == [7, 11, 1000003, -5, 64, 0]
    place = ctypes.c_int64.from_address(loaded.exports["where"]).value
    assert ctypes.c_int64.from_address(place).value == 30


@pytest.mark.parametrize("name", NAMES)
def test_shared_code_links_for_every_architecture(name: str) -> None:
    image = jit.compile_text(native.text(target(name)), target(name), clean_up=True)
    assert {"fl_block", "fl_ufunc_loop", "fl_run", "fl_run_alone", "fl_worker", "fl_publish", "fl_call"} <= set(
        image.exports
    )
    assert all(slot % 8 == 0 and slot + 8 <= len(image.code) for slots in image.imports.values() for slot in slots)


def test_aarch64_page_addresses_point_at_their_constants() -> None:
    """Decode `adrp x8, page; ldr q0, [x8, #offset]` by hand and look at the 16 bytes it names."""
    text = """
    define <4 x float> @f(<4 x float> %x) {
      %y = fmul <4 x float> %x, <float 1.25, float 2.5, float 3.75, float 5.0>
      ret <4 x float> %y
    }
    """
    code = image_of(text, "aarch64").code
    words = np.frombuffer(code[: len(code) // 4 * 4], "<u4")
    at = next(i for i, w in enumerate(words) if w & 0x9F000000 == 0x90000000)
    page = ((int(words[at]) >> 29 & 3) | (int(words[at]) >> 5 & 0x7FFFF) << 2) * 4096 + at * 4 // 4096 * 4096
    load = next(int(w) for w in words[at:] if int(w) & 0xFFC00000 == 0x3DC00000)
    place = page + (load >> 10 & 0xFFF) * 16
    assert np.frombuffer(code[place : place + 16], "<f4").tolist() == [1.25, 2.5, 3.75, 5.0]


def test_code_memory_is_returned_when_its_last_user_dies() -> None:
    image = image_of(body_text(multiply_add_graph(), host.host_target()).text)
    before = mappings()
    kept = [LoadedImage(image) for _ in range(200)]
    assert SYMBOL in kept[0].exports
    kept.clear()
    gc.collect()
    assert mappings() < before + 20


def test_a_remainder_of_floats_calls_the_c_library_and_is_exact() -> None:
    x, y = (Expr(input_node(n, F64)) for n in "xy")
    loop = loop_of(Graph([x.node, y.node], [("r", call("fmod", x, y).node)]))
    a, b = np.array([5.3, -7.0, 1e300, 0.3] * 10), np.array([0.7, 3.0, 1e-3, 0.1] * 10)
    (found,) = iterate.run(loop, [a, b], [None])
    assert found.tolist() == np.fmod(a, b).tolist()


def test_a_thread_that_finds_no_memory_to_begin_with_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_PATIENCE_AT_THE_START_S", 0.01)
    monkeypatch.setattr(jit._thread, "start_new_thread", lambda *_: 1)  # it ends before its first line
    assert (
        SYMBOL in jit.compile_text(body_text(multiply_add_graph(), host.host_target()).text, host.host_target()).exports
    )


def test_no_memory_for_code_is_a_memory_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("mmap.mmap", none)
    with pytest.raises(MemoryError, match="no memory for compiled code"):
        LoadedImage(Image(b"\xc3", {"f": 0}, {}))
