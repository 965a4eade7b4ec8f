"""The code that every kernel shares: operands into vector form, NumPy's loop signature, the loop nest, threads.

It is written once in LLVM text (a file a subject, and one an architecture), compiled and cached like a kernel, and
kept for the life of the process.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

from fuseline.codegen.llvm.target import LlvmTarget
from fuseline.runtime import cache, host, reserve
from fuseline.runtime.fingerprint import generator_fingerprint
from fuseline.runtime.image import Image, LoadedImage, own_symbols
from fuseline.runtime.locks import Lock

_load_lock = Lock()


def text(target: LlvmTarget) -> str:
    """The shared code as LLVM text for ``target``."""
    from importlib import resources  # it loads much, and only what is not in the cache needs the text

    here = resources.files(__package__)
    names = (
        target.architecture,
        "reserve",
        "items",
        "block",
        "streaming",
        "rows",
        "stages",
        "run",
        "pool",
        "lane",
        "call",
        "store",
        "prepared",
        "launch",
    )
    return "\n".join((here / f"{name}.ll").read_text(encoding="utf-8") for name in names)


def load_cached(parts: tuple[str, ...], target: LlvmTarget, made: Callable[[], Image]) -> LoadedImage:
    """Code for what ``parts`` describe: from the cache, or ``made()`` and then cached."""
    objects = cache.object_cache()
    name = cache.key(generator_fingerprint(), host.identity(), repr(target), *parts)
    stored = objects.get(name)
    if stored is not None:
        return LoadedImage(Image.from_bytes(stored))
    image = made()
    objects.put(name, image.to_bytes())
    return LoadedImage(image)


@functools.cache
def _support() -> LoadedImage:
    target = host.host_target()

    def compiled() -> Image:
        from fuseline.runtime import jit

        return jit.compile_text(text(target), target, clean_up=True)

    loaded = load_cached(("support",), target, compiled)
    loaded.keep()
    return loaded


def support() -> LoadedImage:
    """The shared code of this process, with every function that Python calls or hands out among its exports."""
    with _load_lock:
        return _support()


for _name in reserve.FUNCTIONS:  # bodies call them
    own_symbols[_name] = functools.partial(lambda name: support().exports[name], _name)


@functools.cache
def _publish() -> Callable[[int, int], None]:
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    return kind(support().exports["fl_publish"])


def publish(place: int, value: int) -> None:
    """Store the pointer ``value`` at ``place`` so that other threads see everything that it points to."""
    _publish()(place, value)
