"""The judge of accuracy.py: compares results with an independent reference, in units in the last place.

An ulp is the distance between neighbouring numbers of the format at the exact value; overflow counts as the next power
of two. Float32 is compared with the float64 value, float64 with the 80-bit one (accuracy_reference.c), or with NumPy's
and multiprecision where there is no C compiler. What lies too close to a rounding boundary for the reference to decide,
and the largest error itself, go to multiprecision.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import math
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
from accuracy_functions import FLOAT64, TWO_ARGUMENTS, Array, exact

from fuseline.folders import cache_folder, caching_allowed, is_private

SOURCE, TABLES = (Path(__file__).with_name(name) for name in ("accuracy_reference.c", "accuracy_tables.h"))
UNDECIDED_LIMIT = 65536


@dataclass(frozen=True)
class Verdict:
    """What was found: errors in ulps, the operands of the largest one, and how often a special value was wrong."""

    samples: int
    largest_ulp: float
    where: tuple[float, ...]
    mean_ulp: float
    correctly_rounded: float
    special_failures: int
    special_where: tuple[float, ...]
    reference: str
    searched: int = 0
    """How many more inputs a search for large errors tried; it says nothing of means."""


class _Statistics(ctypes.Structure):
    _fields_ = (
        ("count", ctypes.c_int64),
        ("correct", ctypes.c_int64),
        ("special_failures", ctypes.c_int64),
        ("undecided_count", ctypes.c_int64),
        ("largest", ctypes.c_double),
        ("sum", ctypes.c_double),
        ("where", ctypes.c_double * 2),
        ("special_where", ctypes.c_double * 2),
        ("undecided", (ctypes.c_double * 2) * UNDECIDED_LIMIT),
        ("undecided_times", ctypes.c_int64 * UNDECIDED_LIMIT),
        ("table_deviation", ctypes.c_double),
    )


def judge(
    name: str, function: Callable[..., Array], inputs: Iterable[tuple[Array, ...]], *, compiled: bool = True
) -> Verdict:
    """Judge ``function`` (arrays to an array of the same dtype) as ``name`` over ``inputs``.

    ``compiled`` allows the C reference; without it, or without a compiler, NumPy's is used, which is slower.
    """
    judge_of_all = Judge(name, function, compiled=compiled)
    for operands in inputs:
        judge_of_all.hear(operands)
    return judge_of_all.verdict()


class Judge:
    """Hears a function's results block by block."""

    def __init__(self, name: str, function: Callable[..., Array], *, compiled: bool = True) -> None:
        self._name, self._function = name, function
        self._library = _library() if compiled else None
        self._statistics = _Statistics()
        self._kind: np.dtype[Any] = np.dtype(np.float32)
        self._operand_count = 2 if name in TWO_ARGUMENTS else 1

    def hear(self, operands: tuple[Array, ...]) -> None:
        """One block of operands."""
        self._kind = operands[0].dtype
        with np.errstate(all="ignore"):
            results = np.ascontiguousarray(self._function(*operands), self._kind)
        if self._library is not None:
            _judge_compiled(self._library, self._name, operands, results, self._statistics)
        else:
            _judge_plain(self._name, operands, results, self._statistics)

    def worst_of(self, operands: tuple[Array, ...]) -> tuple[float, tuple[float, ...]]:
        """The largest error in one block and its operands, if it is more than half an ulp; else 0.5 and none."""
        statistics = self._statistics
        before, where_before = statistics.largest, tuple(statistics.where)
        statistics.largest = 0.5
        self.hear(operands)
        largest, where = statistics.largest, tuple(statistics.where)
        if before >= largest or largest <= 0.5:  # nothing beyond half an ulp: then no place of this block is remembered
            statistics.largest = before
            statistics.where[:] = where_before
        return largest, where[: self._operand_count] if largest > 0.5 else ()

    def verdict(self) -> Verdict:
        """What was found in all blocks."""
        statistics, name, function, kind = self._statistics, self._name, self._function, self._kind
        if self._library is not None:
            self._library.forget_tables()
        if not statistics.table_deviation <= _TABLE_ULP:
            raise RuntimeError(f"the tables of {name} are off by {statistics.table_deviation} ulp")
        resolved = 0
        times = np.ctypeslib.as_array(statistics.undecided_times)
        for i in np.flatnonzero(times).tolist():
            operands = tuple(float(v) for v in statistics.undecided[i][: self._operand_count])
            resolved += int(times[i]) * _is_correct(name, function, operands, kind)
        where = tuple(statistics.where[: self._operand_count])
        confirmed = _confirmed(name, function, where, kind) if statistics.largest > 0 else 0.0
        largest = _largest(confirmed, statistics.largest) if self._library is not None else confirmed
        decided_by = "C library" if self._library is not None else "NumPy"
        return Verdict(
            samples=statistics.count,
            largest_ulp=largest,
            where=where,
            mean_ulp=statistics.sum / max(statistics.count, 1),
            correctly_rounded=(statistics.correct + resolved) / max(statistics.count, 1),
            special_failures=statistics.special_failures,
            special_where=tuple(statistics.special_where[: self._operand_count]),
            reference=f"{decided_by}, multiprecision at ties and at the maximum",
        )


_TABLE_ULP = 2.0**-12
"""TABLE_ULP of accuracy_reference.c."""
_REFERENCE_ULP = 0.02
"""By how much the compiled reference may be off at most, itself; NumPy's is off by more where it cancels."""


def _largest(confirmed: float, found: float) -> float:
    """The error by multiprecision, unless the function gives another result there alone than among others."""
    return confirmed if abs(confirmed - found) <= _REFERENCE_ULP * max(1.0, found) else found


# ── the compiled reference ───────────────────────────────────────────────────────────────────────────────────────────


def _judge_compiled(
    library: ctypes.CDLL, name: str, operands: tuple[Array, ...], results: Array, statistics: _Statistics
) -> None:
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in operands]
    second = pointers[1] if len(pointers) > 1 else None
    common = (name.encode(), pointers[0], second, ctypes.c_void_p(results.ctypes.data), ctypes.c_int64(results.size))
    if results.dtype == np.float32:
        library.judge_float32(*common, ctypes.c_int(1), ctypes.byref(statistics))
    else:
        library.judge_float64(*common, ctypes.byref(statistics))


def has_compiled_reference() -> bool:
    """Whether there is a C compiler for it, and a long double worth having."""
    return _library() is not None


def _library() -> ctypes.CDLL | None:
    """The compiled reference, built once into a folder of this user's own; None without a C compiler."""
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")
    wide_long_double = np.finfo(np.longdouble).nmant >= 63
    if compiler is None or not wide_long_double:
        return None
    digest = hashlib.sha256(SOURCE.read_bytes() + TABLES.read_bytes()).hexdigest()[:16]
    target = _private_folder() / f"reference-{digest}.so"
    if not _is_private(target, stat.S_ISREG):
        _compile(compiler, target)
    return ctypes.CDLL(str(target))


@functools.cache
def _private_folder() -> Path:
    """Where nobody else may write: in the folder of compiled kernels, or a temporary one for this process where that is
    no such place or nothing may be kept."""
    kept = cache_folder() / "accuracy"
    if caching_allowed():
        with contextlib.suppress(OSError):
            kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_private(kept, stat.S_ISDIR):
            return kept
    made = Path(tempfile.mkdtemp(prefix="fuseline-accuracy-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _is_private(path: Path, has_kind: Callable[[int], bool]) -> bool:
    """Whether ``path`` itself, and not what a link there leads to, is of this kind and nobody else's to write."""
    try:
        facts = path.lstat()
    except OSError:
        return False
    return has_kind(facts.st_mode) and is_private(facts)


def _compile(compiler: str, target: Path) -> None:
    """With the C library's vector functions if it has them, else without."""
    base = [compiler, "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-shared", "-fPIC", "-w"]
    lanes = (["-march=native", "-DWITH_LIBMVEC"], ["-Wl,--no-as-needed", "-lmvec"])
    attempts = [lanes, ([], [])] if platform.machine() == "x86_64" else [([], [])]
    temporary = target.with_suffix(f".{os.getpid()}")
    for options, libraries in attempts:
        command = [*base, *options, "-o", str(temporary), str(SOURCE), *libraries, "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0 and _loads(temporary):
            temporary.replace(target)
            return
    raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")


def _loads(library: Path) -> bool:
    try:
        ctypes.CDLL(str(library))
    except OSError:
        return False
    return True


# ── the plain reference ──────────────────────────────────────────────────────────────────────────────────────────────


def _judge_plain(name: str, operands: tuple[Array, ...], results: Array, statistics: _Statistics) -> None:
    if results.dtype != np.float32:
        _judge_by_multiprecision(name, operands, results, statistics)
        return
    with np.errstate(all="ignore"):
        wide = [a.astype(np.float64) for a in operands]
        r = np.asarray(FLOAT64[name](*wide), np.float64)
        y = results.astype(np.float64)
        rounded = r.astype(np.float32).astype(np.float64)
        special = ~np.isfinite(r) | (r == 0) | ~np.isfinite(y) & ~np.isfinite(rounded)
        agrees = (y == rounded) & (np.signbit(y) == np.signbit(rounded)) | np.isnan(y) & np.isnan(r)
        limit = np.copysign(2.0**128, r)
        r, y = np.where(np.isfinite(rounded), r, limit), np.where(np.isinf(y), np.copysign(2.0**128, y), y)
        unit = np.exp2(np.clip(np.frexp(r)[1] - 1, -126, 127) - 23.0)
        errors = np.where(special, 0.0, np.abs(y - r) / unit)
        errors = np.where(np.isnan(errors), np.inf, errors)
        tie = ~special & (np.abs(np.abs(rounded - r) / unit - 0.5) < 2.0**-26)
    failed = special & ~agrees
    statistics.count += results.size
    statistics.correct += int(np.count_nonzero(agrees & ~tie))
    statistics.sum += float(errors.sum())
    if failed.any():
        if statistics.special_failures == 0:
            _remember(statistics.special_where, operands, int(np.argmax(failed)))
        statistics.special_failures += int(np.count_nonzero(failed))
    for i in np.flatnonzero(tie):
        if statistics.undecided_count < UNDECIDED_LIMIT:
            _remember(statistics.undecided[statistics.undecided_count], operands, int(i))
            statistics.undecided_times[statistics.undecided_count] = 1
        statistics.undecided_count += 1
    worst = int(np.argmax(errors))
    if errors[worst] > statistics.largest:
        statistics.largest = float(errors[worst])
        _remember(statistics.where, operands, worst)


def _remember(place: Any, operands: tuple[Array, ...], index: int) -> None:
    for j, a in enumerate(operands):
        place[j] = float(a[index])


def _judge_by_multiprecision(name: str, operands: tuple[Array, ...], results: Array, statistics: _Statistics) -> None:
    for i, y in enumerate(results.tolist()):
        values = tuple(float(a[i]) for a in operands)
        if not all(map(math.isfinite, values)):
            continue
        try:
            error = error_in_ulps(name, values, y, results.dtype)
        except (ValueError, ZeroDivisionError):  # no real value, or a pole
            continue
        statistics.count += 1
        statistics.sum += error
        statistics.correct += error <= 0.5
        if error > statistics.largest:
            statistics.largest = error
            _remember(statistics.where, operands, i)


# ── multiprecision ───────────────────────────────────────────────────────────────────────────────────────────────────


def error_in_ulps(name: str, operands: tuple[float, ...], result: float, kind: np.dtype[Any]) -> float:
    """The exact error of one result; raises ValueError where the function has no real value."""
    value = exact(name, operands)
    if isinstance(value, mp.mpc):
        raise ValueError(f"{name}{operands} is not real")
    info = np.finfo(kind)
    if value == 0:
        return 0.0 if result == 0 else math.inf
    largest = mp.mpf(2) ** info.maxexp
    if abs(value) >= largest:
        value = mp.sign(value) * largest
    shown = mp.sign(value) * largest if math.isinf(result) else mp.mpf(result)
    exponent = min(max(int(mp.frexp(abs(value))[1]) - 1, info.minexp), info.maxexp - 1)
    with mp.workdps(60):
        return float(abs(shown - value) / mp.mpf(2) ** (exponent - info.nmant))


def _evaluate(function: Callable[..., Array], operands: tuple[float, ...], kind: np.dtype[Any]) -> float:
    with np.errstate(all="ignore"):
        return float(function(*(np.full(8, v, kind) for v in operands))[0])


def _confirmed(name: str, function: Callable[..., Array], operands: tuple[float, ...], kind: np.dtype[Any]) -> float:
    return error_in_ulps(name, operands, _evaluate(function, operands, kind), kind)


def _is_correct(name: str, function: Callable[..., Array], operands: tuple[float, ...], kind: np.dtype[Any]) -> bool:
    return _confirmed(name, function, operands, kind) <= 0.5
