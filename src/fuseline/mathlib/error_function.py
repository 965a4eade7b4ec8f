"""erf and erfc."""

from __future__ import annotations

from ..ir.build import Expr, call, fma, where
from .formats import SINGLE, at_most, polynomial


def erf(x: Expr) -> Expr:
    """The error function."""
    return _erf_single(x)


def _erf_single(x: Expr) -> Expr:
    """x + x*p(x*x) below 1; 1 - q(x)**2 above: the root of erfc falls more slowly, and squaring forgives its errors."""
    f = SINGLE
    a = abs(x)
    small = fma(a, polynomial(x * x, f.table("ERF")), a)
    root = polynomial(at_most(a, 3.925) - 1.0, f.table("ERF_TAIL"))
    large = fma(-root, root, 1.0)
    return call("copysign", where(a > 1.0, large, small), x)
