"""What each operation means, on NumPy arrays: the plain, slow, exact definitions that the oracle evaluates.

Functions take arrays of the operation's computation dtype (never a 16-bit float: SEMANTICS.md P2) and return an array.
Where NumPy's own result depends on the machine or on argument order, the definition here does not.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuseline.c_library import c_library_with

Array = NDArray[Any]

SQRT_2_OVER_PI = 0.7978845608028654
GELU_CUBIC = 0.044715


# ── exact arithmetic ─────────────────────────────────────────────────────────────────────────────────────────────────


def fma(a: Array, b: Array, c: Array) -> Array:
    """``a*b + c`` rounded once. Integers wrap."""
    if a.dtype.kind != "f":
        return a * b + c
    if a.dtype == np.float32:
        return _fma_float32(a, b, c)
    return _fma_float64(a, b, c)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Knuth's exact addition: a + b = s + e."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Dekker's exact product: a * b = p + e, away from overflow and underflow."""
    split = 134217729.0
    ah = split * a - (split * a - a)
    bh = split * b - (split * b - b)
    al, bl = a - ah, b - bh
    p = a * b
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def _broadcast(*arrays: Array) -> list[Array]:
    """As `numpy.broadcast_arrays`, which takes 32 axes where arrays have up to 64."""
    lengths = itertools.zip_longest(*(np.shape(a)[::-1] for a in arrays), fillvalue=1)
    shape = tuple(next((n for n in axis if n != 1), 1) for axis in lengths)[::-1]
    return [np.broadcast_to(a, shape) for a in arrays]


def _add_round_to_odd(a: Array, b: Array) -> Array:
    """a + b, with an inexact sum's last bit forced to one, so that a later rounding is not a double rounding."""
    s, e = _two_sum(a, b)
    bits = np.atleast_1d(s).view(np.int64).reshape(np.shape(s))
    inexact_even = (e != 0) & np.isfinite(s) & np.isfinite(e) & (bits & 1 == 0)
    step = np.where((e > 0) == (s > 0), 1, -1)
    odd = np.atleast_1d(bits + step).view(np.float64).reshape(np.shape(s))
    return np.where(inexact_even, odd, s)


def _fma_float32(a: Array, b: Array, c: Array) -> Array:
    wide = [np.asarray(v, np.float64) for v in (a, b, c)]
    return np.asarray(_add_round_to_odd(wide[0] * wide[1], wide[2])).astype(np.float32)


def _fma_float64(a: Array, b: Array, c: Array) -> Array:
    """Boldo and Melquiond's emulation (2008) where nothing can leave the normal range, exact rationals elsewhere."""
    a, b, c = (np.asarray(v, np.float64) for v in _broadcast(a, b, c))
    product = a * b
    magnitudes = [np.abs(a), np.abs(b)]
    safe = (np.abs(product) > 1e-200) & (np.abs(product) < 1e200)
    safe &= ((np.abs(c) > 1e-200) & (np.abs(c) < 1e200)) | (c == 0)
    for m in magnitudes:
        safe &= (m > 1e-200) & (m < 1e200)
    uh, ul = _two_product(a, b)
    th, tl = _two_sum(c, ul)
    vh, vl = _two_sum(uh, th)
    result = np.array(vh + _add_round_to_odd(tl, vl))
    special = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c))
    # A product of finite numbers may overflow here, but not in the exact sum: beside an infinity it does not count.
    result = np.where(special, np.where(np.isfinite(a) & np.isfinite(b), c, product + c), result)
    rest = ~safe & ~special
    if rest.any():
        result[rest] = _scalar_fma()(a[rest], b[rest], c[rest]).astype(np.float64)
    return result


@functools.cache
def _scalar_fma() -> Callable[..., Array]:
    """fma an element at a time: the C library's where it is within reach and exact, else exact rationals."""
    library = c_library_with("fma")
    if library is None:
        return np.frompyfunc(_fma_rational, 3, 1)
    library_fma = library.fma
    library_fma.restype = ctypes.c_double
    library_fma.argtypes = (ctypes.c_double,) * 3
    exact = all(library_fma(*v) == _fma_rational(*v) for v in _FMA_PROBES)
    return np.frompyfunc(library_fma if exact else _fma_rational, 3, 1)


_FMA_PROBES = (
    (1.0 + 2.0**-52, 1.0 - 2.0**-53, -1.0),
    (2.0**-600, 2.0**-600, 5e-324),
    (1.5 + 2.0**-52, 2.0**-1074, -(2.0**-1073)),
    (2.0**1000, 2.0**30, -1.7e308),
    (1.0 + 2.0**-27, 1.0 + 2.0**-27, 2.0**-106),
)
"""Operands at which a product that is rounded, or a sum that is rounded twice, shows."""


def _fma_rational(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        product_sign = math.copysign(1.0, a) * math.copysign(1.0, b)
        return -0.0 if (a * b == 0 and c == 0 and product_sign < 0 and math.copysign(1.0, c) < 0) else 0.0
    try:
        result = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    return math.copysign(result, exact)


# ── order and sign ───────────────────────────────────────────────────────────────────────────────────────────────────


def maximum(a: Array, b: Array) -> Array:
    """The larger one; NaN if either is; +0 above -0 whichever comes first."""
    if a.dtype.kind != "f":
        return np.maximum(a, b)
    picked = np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b)
    return np.where(np.isnan(a), a, picked)


def minimum(a: Array, b: Array) -> Array:
    """The smaller one; NaN if either is; -0 below +0 whichever comes first."""
    if a.dtype.kind != "f":
        return np.minimum(a, b)
    picked = np.where((a < b) | ((a == b) & np.signbit(a)), a, b)
    return np.where(np.isnan(a), a, picked)


def copysign(a: Array, b: Array) -> Array:
    """The magnitude of ``a`` with the sign of ``b``, +0 and -0 told apart; what is made of a NaN's sign depends on the
    machine that made the NaN, so a NaN counts as positive."""
    return np.where(np.isnan(b), np.abs(a), np.copysign(a, b))


def signbit(a: Array) -> Array:
    """Whether ``a`` is below +0: -0 is, a NaN never is, whatever its bits."""
    negative: Array = np.signbit(a)
    return negative & ~np.isnan(a) if a.dtype.kind == "f" else negative


def fmax(a: Array, b: Array) -> Array:
    """`maximum`, except that a NaN gives way to a number."""
    return maximum(a, b) if a.dtype.kind != "f" else np.where(np.isnan(a), b, np.where(np.isnan(b), a, maximum(a, b)))


def fmin(a: Array, b: Array) -> Array:
    """`minimum`, except that a NaN gives way to a number."""
    return minimum(a, b) if a.dtype.kind != "f" else np.where(np.isnan(a), b, np.where(np.isnan(b), a, minimum(a, b)))


def clip(x: Array, low: Array, high: Array) -> Array:
    """``minimum(maximum(x, low), high)``; NaN in any operand is NaN."""
    return minimum(maximum(x, low), high)


def relu(x: Array) -> Array:
    """``maximum(x, 0)``; NaN stays NaN, -0 becomes +0."""
    return maximum(x, np.zeros((), x.dtype))


# ── integers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def shift_left(a: Array, b: Array) -> Array:
    """``a << b``; a count of the width or more (or negative) gives 0."""
    width = a.dtype.itemsize * 8
    in_range = (b >= 0) & (b < width)
    return np.where(in_range, np.left_shift(a, np.where(in_range, b, 0).astype(a.dtype)), np.zeros((), a.dtype))


def shift_right(a: Array, b: Array) -> Array:
    """``a >> b``, arithmetic for signed dtypes; a count of the width or more (or negative) leaves only the sign."""
    width = a.dtype.itemsize * 8
    count = np.where((b >= 0) & (b < width), b, width - 1).astype(a.dtype)
    shifted: Array = np.right_shift(a, count)
    if a.dtype.kind == "u":
        shifted = np.where((b >= 0) & (b < width), shifted, np.zeros((), a.dtype))
    return shifted


def quotient(a: Array, b: Array) -> Array:
    """a/b of integers rounded toward zero; by zero 0, and the most negative value by -1 is itself."""
    inexact_negative = (np.fmod(a, b) != 0) & ((a < 0) != (b < 0))
    result: Array = np.floor_divide(a, b) + inexact_negative.astype(a.dtype)
    return result


def power(a: Array, b: Array) -> Array:
    """C99's pow for floats; integers wrap, and a negative integer exponent gives the truncated reciprocal."""
    if a.dtype.kind == "f":
        general = via_double(_power_float64)(a, b)
        return np.where(b == 2, a * a, general)  # x**2 is defined as x*x, which pow itself does not always give
    if a.dtype.kind == "u" or not np.any(b < 0):
        return np.power(a, b)
    positive = np.power(a, np.maximum(b, 0))
    odd = np.where(b & 1 == 1, -1, 1).astype(a.dtype)
    reciprocal = np.where(a == 1, 1, np.where(a == -1, odd, 0)).astype(a.dtype)
    return np.where(b < 0, reciprocal, positive)


def _power_float64(a: Array, b: Array) -> Array:
    # NumPy turns an exponent of 0.5 that is a scalar into sqrt, which differs at -inf; an array of them reaches pow.
    a, b = _broadcast(a, b)
    flat: Array = np.power(a.flatten(), b.flatten())
    return np.reshape(flat, a.shape)


def reciprocal(x: Array) -> Array:
    """``1/x``; for integers truncated, and of 0 the most negative one from i32 on, else 0, as NumPy on x86-64."""
    if x.dtype.kind == "f":
        return np.asarray(np.divide(x.dtype.type(1), x))
    at_zero = np.iinfo(x.dtype).min if x.dtype.itemsize >= 4 else 0
    return np.where(x == 0, x.dtype.type(at_zero), np.where(np.abs(x) == 1, x, x.dtype.type(0)))


# ── casts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def float_to_integer(x: Array, target: np.dtype[Any]) -> Array:
    """Truncate toward zero. What does not fit (NaN too) follows x86-64 on every machine.

    Up to 32 signed bits the value goes through int32, u32 and i64 through int64; a value outside gives the most
    negative one, of which a narrower target keeps the low bits. u64 adds the upper half of its own range.
    """
    through = np.dtype(np.int64 if target in (np.uint32, np.int64, np.uint64) else np.int32)
    whole = np.trunc(np.asarray(x, np.float64))
    limit = 2.0 ** (through.itemsize * 8 - 1)
    fits = (whole >= -limit) & (whole < limit)
    result = np.where(fits, np.where(fits, whole, 0).astype(through), int(-limit))
    if target == np.uint64:
        upper = (whole >= limit) & (whole < 2 * limit)
        high = np.where(upper, whole - limit, 0).astype(np.uint64) + np.uint64(2**63)
        return np.where(upper, high, result.astype(np.uint64))
    return result.astype(target)


def cast(x: Array, target: np.dtype[Any]) -> Array:
    """Convert values; float to integer as `float_to_integer`, everything else as IEEE 754 and NumPy say."""
    if x.dtype.kind not in "biu" and target.kind in "iu":
        return float_to_integer(x, target)
    return x.astype(target)


def bitcast(x: Array, target: np.dtype[Any]) -> Array:
    """The same bits read as another dtype of the same size."""
    return np.ascontiguousarray(x).view(target).reshape(x.shape)


def lookup(index: Array, table: Array) -> Array:
    """``table[index]`` with the index taken modulo the table's length, a power of two."""
    found: Array = table[np.asarray(index).astype(np.int64) & (len(table) - 1)]
    return found


# ── functions whose truth is the float64 value rounded once ──────────────────────────────────────────────────────────


def via_double(function: Callable[..., Array]) -> Callable[..., Array]:
    """``function`` evaluated in float64 and rounded once to the operands' dtype."""

    def rounded_once(*operands: Array) -> Array:
        dtype = operands[0].dtype
        return np.asarray(function(*(np.asarray(v, np.float64) for v in operands))).astype(dtype)

    return rounded_once


def per_element(function: Callable[..., float]) -> Callable[..., Array]:
    """A Python scalar function over arrays, evaluated in float64."""
    ufunc = np.frompyfunc(function, 1, 1)

    def mapped(x: Array) -> Array:
        return np.asarray(ufunc(np.asarray(x, np.float64)), dtype=object).astype(np.float64)

    return mapped


erf = via_double(per_element(math.erf))
erfc = via_double(per_element(math.erfc))


@via_double
def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e) + np.where(np.isnan(x), np.nan, 0.0)


@via_double
def softplus(x: Array) -> Array:
    """log(1 + exp(x)), without overflow."""
    return np.where(np.isnan(x), x, np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))


@via_double
def silu(x: Array) -> Array:
    """x * sigmoid(x); silu(-inf) is -0."""
    return np.where(x == -np.inf, -0.0, np.asarray(x) * sigmoid(np.asarray(x)))


@via_double
def gelu(x: Array) -> Array:
    """x * Phi(x) with the normal distribution's Phi; gelu(-inf) is -0."""
    tail = per_element(math.erfc)(-np.asarray(x) * math.sqrt(0.5))
    return np.where(x == -np.inf, -0.0, 0.5 * x * tail)


@via_double
def gelu_tanh(x: Array) -> Array:
    """GELU's tanh form, 0.5*x*(1 + tanh(sqrt(2/pi)*(x + 0.044715*x**3))); -inf gives -0."""
    inner = SQRT_2_OVER_PI * (x + GELU_CUBIC * x * x * x)
    # 0.5*(1 + tanh(u)) is sigmoid(2u), which keeps the left tail's digits.
    return np.where(x == -np.inf, -0.0, x * sigmoid(2.0 * inner))


# ── reductions ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _reduced_first(x: Array, axes: tuple[int, ...]) -> Array:
    """The elements to be reduced along one leading axis, in C order."""
    kept = [d for d in range(x.ndim) if d not in axes]
    count = math.prod(x.shape[d] for d in axes)
    return np.transpose(x, [*axes, *kept]).reshape(count, *(x.shape[d] for d in kept))


def tree_sum(x: Array, axes: tuple[int, ...], result: np.dtype[Any]) -> Array:
    """Sum over ``axes`` (kept as length 1) by the documented tree (SEMANTICS.md P5).

    The reduced elements stand in C order; neighbours are added, a last one without a neighbour stays, and so on until
    one is left. Its error bound is pairwise summation's, and aligned blocks of 2**k elements are trees of their own.
    """
    level = _reduced_first(x, axes).astype(result)
    out_shape = tuple(1 if d in axes else x.shape[d] for d in range(x.ndim))
    if len(level) == 0:
        return np.zeros(out_shape, result)
    while len(level) > 1:
        paired = len(level) // 2 * 2
        level = np.concatenate([level[0:paired:2] + level[1:paired:2], level[paired:]])
    return np.reshape(level[0], out_shape)


def fold_axes(function: Callable[[Array, Array], Array], x: Array, axes: tuple[int, ...]) -> Array:
    """Reduce with an associative ``function`` over ``axes``, kept as length 1; the caller has refused empty ones."""
    level = _reduced_first(x, axes)
    while len(level) > 1:
        half = (len(level) + 1) // 2
        level = np.concatenate([function(level[: len(level) - half], level[half:]), level[len(level) - half : half]])
    folded: Array = level[0].reshape(tuple(1 if d in axes else x.shape[d] for d in range(x.ndim)))
    return folded
