/* References for accuracy.py, compiled by it: float64 (and 80-bit) values by the C library, and ulp statistics.

   Float32 results are compared with the float64 value of the C library; whole blocks use its four-lane functions
   (documented to 4 ulp of float64) where it has them, and every value that could decide anything, that is a special one,
   one close to a rounding boundary or a new largest error, is recomputed by the scalar function.
   Float64 results are compared with tables of the 128-bit function (accuracy_tables.h), and where those do not reach, with
   the 80-bit function. What is close to a boundary or a new largest error is recomputed by the 128-bit function.
   What is too close to a boundary even for that is handed back, for multiprecision. */
#define _GNU_SOURCE
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 1024
#define UNDECIDED_LIMIT 65536
#define CHECKED_BLOCKS 4 /* in one block of so many, one value of a table is compared */
#define TABLE_ULP 0x1p-12 /* by how much a table may be off at most */
#define SQRT_HALF 0.70710678118654752440084436210484903928L
#define SQRT_HALF_REST 1.895032558893257079655062e-20L /* what 64 bits leave */
#define SQRT_2_OVER_PI 0.79788456080286535587989211986876373695L
#define SQRT_2_OVER_PI_REST 2.675588877860239146006582e-20L
#define TWO_OVER_SQRT_PI 1.12837916709551257389615890312154517169L

/* What decides where 80 bits cannot. */
#if LDBL_MANT_DIG == 64 && defined __HAVE_FLOAT128 && __HAVE_FLOAT128
typedef _Float128 widest;
#define WIDEST(name) name##f128
#define WIDEST_LITERAL(digits) digits##F128
#define WIDEST_BITS 113
#else
typedef long double widest;
#define WIDEST(name) name##l
#define WIDEST_LITERAL(digits) digits##L
#define WIDEST_BITS LDBL_MANT_DIG
#endif

typedef double v4 __attribute__((vector_size(32)));
typedef int64_t m4 __attribute__((vector_size(32)));
typedef long double ld;

typedef struct {
  int64_t count, correct, special_failures, undecided_count;
  double largest, sum, where[2], special_where[2];
  double undecided[UNDECIDED_LIMIT][2]; /* at slots found by hashing */
  int64_t undecided_times[UNDECIDED_LIMIT];
  double table_deviation; /* of float64 values from the 128-bit function, in ulps, at the values that were tried */
} Statistics;

/* Composite functions, once for each precision. R is the type, F(name) the C library's function. */
#define COMPOSITES(R, P, F)                                                                                              \
  static R P##sigmoid(R x) { R e = F(exp)(-F(fabs)(x)); return x != x ? x : (x >= 0 ? 1 : e) / (1 + e); }                \
  static R P##softplus(R x) { return x != x ? x : (x > 0 ? x : 0) + F(log1p)(F(exp)(-F(fabs)(x))); }                     \
  static R P##silu(R x) { return x == -INFINITY ? (R)-0.0 : x * P##sigmoid(x); }                                         \
  static R P##rsqrt(R x) { return 1 / F(sqrt)(x); }
#define DOUBLE(name) name
#define LONG(name) name##l
COMPOSITES(double, d_, DOUBLE)
COMPOSITES(ld, l_, LONG)
COMPOSITES(widest, w_, WIDEST)
static double d_gelu(double x) { return x == -INFINITY ? -0.0 : 0.5 * x * erfc(-x * (double)SQRT_HALF); }
static double d_gelu_tanh(double x) {
  return x == -INFINITY ? -0.0 : x * d_sigmoid(2 * (double)SQRT_2_OVER_PI * (x + 0.044715 * x * x * x));
}

/* Where the larger operand and the logarithm cancel, the exponentials are added first, in ever wider formats. */
static ld l_logaddexp(ld a, ld b) {
  if (a != a || b != b) return a + b;
  if (isinf(a) || isinf(b)) return (a > b ? a : b) + 0.0; /* log(exp(-0) + 0) is +0 */
  ld high = a > b ? a : b, low = a > b ? b : a, term = log1pl(expl(low - high)), value = high + term;
  if (fabsl(value) >= 0.125L * term) return value;
  return (ld)WIDEST(log1p)(WIDEST(expm1)((widest)high) + WIDEST(exp)((widest)low));
}
static widest w_logaddexp(widest a, widest b) {
  widest high = a > b ? a : b, low = a > b ? b : a, term = WIDEST(log1p)(WIDEST(exp)(low - high)), value = high + term;
  if (WIDEST(fabs)(value) >= term / 8) return value;
  return WIDEST(log1p)(WIDEST(expm1)(high) + WIDEST(exp)(low));
}
static double d_logaddexp(double a, double b) {
  if (a != a || b != b) return a + b;
  if (isinf(a) || isinf(b)) return (a > b ? a : b) + 0.0; /* log(exp(-0) + 0) is +0 */
  double high = a > b ? a : b, low = a > b ? b : a, term = log1p(exp(low - high)), value = high + term;
  if (fabs(value) >= 0x1p-16 * term) return value;
  ld below = expl(low), sum = expm1l(high) + below;
  return fabsl(sum) >= 0x1p-33L * below ? (double)log1pl(sum) : (double)l_logaddexp(a, b);
}

/* The gates whose argument is computed multiply its rounding error by hundreds: it is kept to twice the precision. */
#if LDBL_MANT_DIG == 64
typedef __float128 wide;
#else
typedef long double wide;
#endif
static ld l_gelu(ld x) {
  if (isinf(x) || x != x) return x > 0 ? x : x < 0 ? (ld)-0.0 : x;
  wide y = -(wide)x * ((wide)SQRT_HALF + (wide)SQRT_HALF_REST);
  ld high = (ld)y, low = (ld)(y - (wide)high);
  return (ld)0.5 * x * (erfcl(high) - low * TWO_OVER_SQRT_PI * expl(-high * high));
}
static ld l_gelu_tanh(ld x) {
  if (isinf(x) || x != x) return x > 0 ? x : x < 0 ? (ld)-0.0 : x;
  wide cubic = (wide)44715 / (wide)1000000;
  wide z = 2 * ((wide)SQRT_2_OVER_PI + (wide)SQRT_2_OVER_PI_REST) * ((wide)x + cubic * (wide)x * (wide)x * (wide)x);
  ld high = (ld)z, low = (ld)(z - (wide)high), s = l_sigmoid(high);
  return x * (s + s * l_sigmoid(-high) * low);
}

/* In 128 bits the rounding of an argument costs nothing that matters. */
static widest w_gelu(widest x) { return x / 2 * WIDEST(erfc)(-x * WIDEST_LITERAL(0.70710678118654752440084436210484903928)); }
static widest w_gelu_tanh(widest x) {
  widest sum = x + (widest)44715 / 1000000 * x * x * x;
  return x * w_sigmoid(2 * WIDEST_LITERAL(0.79788456080286535587989211986876373695) * sum);
}

#include "accuracy_tables.h"

#define LIBRARY_UNARY(X) X(cbrt) X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sin) X(cos) X(tan) X(asin)  \
  X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh) X(erf) X(erfc) X(sqrt)
#define OWN_UNARY(X) X(sigmoid) X(softplus) X(silu) X(gelu) X(gelu_tanh) X(rsqrt)
#define LIBRARY_BINARY(X) X(pow) X(hypot) X(atan2)
#define OWN_BINARY(X) X(logaddexp)

typedef struct { const char *name; int arity; double (*d1)(double); ld (*l1)(ld); double (*d2)(double, double); ld (*l2)(ld, ld); widest (*w1)(widest); widest (*w2)(widest, widest); Knowledge (*t2)(double, double, double *, double *); } Row;
static const Row ROWS[] = {
#define X(n) {#n, 1, n, n##l, 0, 0, WIDEST(n), 0, 0},
  LIBRARY_UNARY(X)
#undef X
#define X(n) {#n, 1, d_##n, l_##n, 0, 0, w_##n, 0, 0},
  OWN_UNARY(X)
#undef X
#define X(n) {#n, 2, 0, 0, n, n##l, 0, WIDEST(n), t_##n},
  LIBRARY_BINARY(X)
#undef X
#define X(n) {#n, 2, 0, 0, d_##n, l_##n, 0, w_##n, t_##n},
  OWN_BINARY(X)
#undef X
};

#ifdef WITH_LIBMVEC
#define LANES(X) X(cbrt) X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sin) X(cos) X(tan) X(asin) X(acos)  \
  X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh) X(erf) X(erfc)
#define X(n) v4 _ZGVdN4v_##n(v4);
LANES(X)
#undef X
v4 _ZGVdN4vv_pow(v4, v4);
v4 _ZGVdN4vv_hypot(v4, v4);
v4 _ZGVdN4vv_atan2(v4, v4);
static v4 fabs4(v4 x) { return (v4)((m4)x & 0x7fffffffffffffffLL); }
static v4 choose(m4 c, v4 a, v4 b) { return (v4)((c & (m4)a) | (~c & (m4)b)); }
static const v4 ONE = {1, 1, 1, 1}, ZERO = {0, 0, 0, 0};
static v4 v_sigmoid(v4 x) { v4 e = _ZGVdN4v_exp(-fabs4(x)); return choose(x >= 0, ONE, e) / (1 + e); }
static v4 v_softplus(v4 x) { return choose(x > 0, x, ZERO) + _ZGVdN4v_log1p(_ZGVdN4v_exp(-fabs4(x))); }
static v4 v_silu(v4 x) { return x * v_sigmoid(x); }
static v4 v_gelu(v4 x) { return 0.5 * x * _ZGVdN4v_erfc(-x * (double)SQRT_HALF); }
static v4 v_gelu_tanh(v4 x) { return x * v_sigmoid(2 * (double)SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)); }
/* Far beyond float32's range the lane functions fall back to scalar ones: the arguments there need not be exact. */
static v4 within(v4 x) { return choose(x > 1100, ZERO + 1100, choose(x < -1100, ZERO - 1100, x)); }
static v4 half_within(v4 x) { return choose(x > 700, ZERO + 700, choose(x < -700, ZERO - 700, x)); }
static v4 v_exp(v4 x) { return _ZGVdN4v_exp(half_within(x)); }
static v4 v_exp2(v4 x) { return _ZGVdN4v_exp2(within(x)); }
static v4 v_expm1(v4 x) { return _ZGVdN4v_expm1(half_within(x)); }
static v4 v_sinh(v4 x) { return _ZGVdN4v_sinh(half_within(x)); }
static v4 v_cosh(v4 x) { return _ZGVdN4v_cosh(half_within(x)); }
typedef struct { const char *name; v4 (*v1)(v4); v4 (*v2)(v4, v4); } LaneRow;
static const LaneRow LANE_ROWS[] = {
  {"exp", v_exp, 0}, {"exp2", v_exp2, 0}, {"expm1", v_expm1, 0}, {"sinh", v_sinh, 0}, {"cosh", v_cosh, 0},
#define X(n) {#n, _ZGVdN4v_##n, 0},
  LANES(X)
#undef X
  {"sigmoid", v_sigmoid, 0}, {"softplus", v_softplus, 0}, {"silu", v_silu, 0}, {"gelu", v_gelu, 0}, {"gelu_tanh", v_gelu_tanh, 0},
  {"pow", 0, _ZGVdN4vv_pow}, {"hypot", 0, _ZGVdN4vv_hypot}, {"atan2", 0, _ZGVdN4vv_atan2},
};
#endif

static const Row *row_of(const char *name) {
  for (unsigned i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
    if (!strcmp(ROWS[i].name, name)) return &ROWS[i];
  return 0;
}

int reference_arity(const char *name) { const Row *r = row_of(name); return r ? r->arity : 0; }

static double scalar(const Row *r, double a, double b) { return r->arity == 1 ? r->d1(a) : r->d2(a, b); }

static void references(const Row *r, const float *a, const float *b, double *out, int n, int lanes) {
#ifdef WITH_LIBMVEC
  if (lanes)
    for (unsigned j = 0; j < sizeof LANE_ROWS / sizeof *LANE_ROWS; j++)
      if (!strcmp(LANE_ROWS[j].name, r->name)) {
        for (int i = 0; i < BLOCK; i += 4) {
          v4 x = {a[i], a[i + 1], a[i + 2], a[i + 3]}, y;
          if (r->arity == 1) y = LANE_ROWS[j].v1(x);
          else { v4 z = {b[i], b[i + 1], b[i + 2], b[i + 3]}; y = LANE_ROWS[j].v2(x, z); }
          memcpy(out + i, &y, sizeof y);
        }
        return;
      }
#endif
  for (int i = 0; i < n; i++) out[i] = scalar(r, a[i], b ? b[i] : 0);
}

static double ulps_per_unit(double r) { /* 1 / ulp of float32 at r */
  uint64_t bits;
  memcpy(&bits, &r, 8);
  int64_t e = (int64_t)((bits >> 52) & 0x7ff) - 1023;
  if (e < -126) e = -126;
  if (e > 127) e = 127;
  bits = (uint64_t)(23 - e + 1023) << 52;
  double s;
  memcpy(&s, &bits, 8);
  return s;
}

static void special_failure(Statistics *s, double a, double b) {
  if (!s->special_failures++) { s->special_where[0] = a; s->special_where[1] = b; }
}

/* Notes operands that only multiprecision can decide, each once; 0 where there are more than it has time for. */
static int note_undecided(double a, double b, Statistics *s) {
  uint64_t slot = (bits_of(a) * 0x9e3779b97f4a7c15ull ^ bits_of(b) * 0xc2b2ae3d27d4eb4full) >> 48;
  for (int i = 0; i < 64; i++, slot++) {
    double *place = s->undecided[slot %= UNDECIDED_LIMIT];
    if (!s->undecided_times[slot]) place[0] = a, place[1] = b;
    if (bits_of(place[0]) != bits_of(a) || bits_of(place[1]) != bits_of(b)) continue;
    s->undecided_count += !s->undecided_times[slot]++;
    return 1;
  }
  return 0;
}

/* One value, with the scalar reference: specials, near ties, records. */
static void decide(const Row *row, double a, double b, float y, Statistics *s) {
  double r = scalar(row, a, b);
  if (r != r || y != y) {
    if ((r != r) != (y != y)) special_failure(s, a, b);
    else s->correct++;
    return;
  }
  if (isinf(r) || r == 0) {
    if ((double)y == r && !signbit(y) == !signbit(r)) s->correct++;
    else special_failure(s, a, b);
    return;
  }
  if (y == 0 && !signbit(y) != !signbit(r)) special_failure(s, a, b);
  double scale = ulps_per_unit(r), own = fabs((double)(float)r - r) * scale;
  if (isinf((float)r)) { /* overflow: what lies beyond the largest number is as good as its successor, 2**128 */
    r = copysign(0x1p128, r);
    own = 0;
  }
  double value = isinf(y) ? copysign(0x1p128, y) : y, error = fabs(value - r) * scale;
  int undecided = fabs(own - 0.5) < 0x1p-27 && note_undecided(a, b, s);
  if (!undecided && (float)r == y) s->correct++;
  s->sum += error;
  if (error > s->largest) { s->largest = error; s->where[0] = a; s->where[1] = b; }
}

void judge_float32(const char *name, const float *a, const float *b, const float *y, int64_t count, int lanes, Statistics *s) {
  const Row *row = row_of(name);
  double r[BLOCK];
  uint8_t hard[BLOCK];
  for (int64_t start = 0; start < count; start += BLOCK) {
    int n = count - start < BLOCK ? (int)(count - start) : BLOCK;
    const float *pa = a + start, *pb = b ? b + start : 0, *py = y + start;
    references(row, pa, pb, r, n, lanes && n == BLOCK);
    double largest = s->largest - 1e-6, sum = 0;
    int64_t correct = 0, hard_count = 0;
    for (int i = 0; i < n; i++) {
      float nearest = (float)r[i];
      uint32_t own_bits, y_bits;
      memcpy(&own_bits, &nearest, 4);
      memcpy(&y_bits, &py[i], 4);
      double scale = ulps_per_unit(r[i]), error = fabs((double)py[i] - r[i]) * scale;
      double own = fabs((double)nearest - r[i]) * scale;
      uint8_t same = own_bits == y_bits, both_nan = (r[i] != r[i]) & (py[i] != py[i]), infinite = fabsf(nearest) == INFINITY;
      uint8_t decided = own < 0.49999;
      uint8_t easy = both_nan | (same & (decided | infinite)) | ((error < largest) & decided & (py[i] != 0) & (r[i] != 0));
      hard[i] = !easy;
      hard_count += !easy;
      correct += easy & (same | both_nan);
      sum += easy & !both_nan & !infinite ? error : 0;
    }
    s->correct += correct;
    s->sum += sum;
    s->count += n;
    if (hard_count)
      for (int i = 0; i < n; i++)
        if (hard[i]) decide(row, pa[i], pb ? pb[i] : 0, py[i], s);
  }
}

/* One value, with the 80-bit function: specials, and what no table knows. Near ties and at records the 128-bit one decides. */
static void decide_double(const Row *row, double a, double b, double value, Statistics *s) {
  ld r = row->arity == 1 ? row->l1(a) : row->l2(a, b);
  double nearest = (double)r;
  if (r != r || value != value) {
    if ((r != r) != (value != value)) special_failure(s, a, b);
    else s->correct++;
    return;
  }
  if (isinf(nearest) || r == 0) {
    if (value == nearest && !signbit(value) == !signbit(nearest)) { s->correct++; return; }
    if (isinf(r) || r == 0) { special_failure(s, a, b); return; }
  }
  if (value == 0 && !signbit(value) != !signbit(nearest)) special_failure(s, a, b);
  int e = ilogbl(r);
  if (e < -1022) e = -1022;
  if (e > 1023) e = 1023;
  ld shown = isinf(value) ? copysignl(0x1p1024L, value) : value;
  if (isinf(nearest)) r = copysignl(0x1p1024L, r);
  double error = (double)fabsl(scalbnl(shown - r, 52 - e));
  double own = (double)fabsl(scalbnl(isinf(nearest) ? 0 : nearest - r, 52 - e));
  double near_tie = 0x1p-9;
  if (WIDEST_BITS > 100 && isfinite(nearest) && (fabs(own - 0.5) < near_tie || error > s->largest - near_tie)) {
    widest w = row->arity == 1 ? row->w1(a) : row->w2(a, b);
    nearest = (double)w;
    error = fabs((double)WIDEST(scalbn)(shown - w, 52 - e));
    own = fabs((double)WIDEST(scalbn)(nearest - w, 52 - e));
    near_tie = 0x1p-48;
  }
  int undecided = fabs(own - 0.5) < near_tie && note_undecided(a, b, s);
  if (!undecided && nearest == value) s->correct++;
  s->sum += error;
  if (error > s->largest) { s->largest = error; s->where[0] = a; s->where[1] = b; }
}

/* What the tables know of a block of operands; the unknown is left at 1. */
static void tabulated(const Row *row, const double *a, const double *b, double *r, double *rest, int64_t *known, int n) {
  Table *table = row->arity == 1 && WIDEST_BITS > 100 ? table_of(row->w1, TABLE_ERROR) : 0;
  if (table) {
    table_values(table, a, r, rest, known, n);
    return;
  }
  for (int i = 0; i < n; i++) {
    known[i] = b && WIDEST_BITS > 100 ? row->t2(a[i], b[i], &r[i], &rest[i]) : UNKNOWN;
    if (known[i] == UNKNOWN) r[i] = 1, rest[i] = 0;
  }
}

/* 1 / ulp of float64 at r + rest, where |rest| is at most half of it; just below a power of two it is the lower binade's. */
static inline double ulps_per_unit_double(double r, double rest) {
  uint64_t bits = bits_of(r), opposite = (bits ^ bits_of(rest)) >> 63, below = opposite & (rest != 0) & ((bits << 12) == 0);
  return double_of((52 + 1023 + 1023 + below - (bits >> 52 & 0x7ff)) << 52);
}

static void check_table(const Row *row, double a, double b, double r, double rest, Statistics *s) {
  widest w = row->arity == 1 ? row->w1(a) : row->w2(a, b);
  double deviation = fabs((double)((r - w) + rest)) * ulps_per_unit_double(r, rest);
  if (!(deviation <= s->table_deviation)) s->table_deviation = deviation;
}

void judge_float64(const char *name, const double *a, const double *b, const double *y, int64_t count, Statistics *s) {
  const Row *row = row_of(name);
  double r[BLOCK], rest[BLOCK], errors[BLOCK];
  int64_t known[BLOCK], hard[BLOCK];
  for (int64_t start = 0; start < count; start += BLOCK) {
    int n = count - start < BLOCK ? (int)(count - start) : BLOCK;
    const double *pa = a + start, *pb = b ? b + start : 0, *py = y + start;
    tabulated(row, pa, pb, r, rest, known, n);
    int64_t block = start / BLOCK, tried = block % n;
    if (block % CHECKED_BLOCKS == 0 && known[tried] == KNOWN)
      check_table(row, pa[tried], pb ? pb[tried] : 0, r[tried], rest[tried], s);
    double margin = s->largest - TABLE_ULP, sums[8] = {0};
    int64_t correct = 0, hard_count = 0;
    for (int i = 0; i < n; i++) {
      double scale = ulps_per_unit_double(r[i], rest[i]);
      double error = fabs((py[i] - r[i]) - rest[i]) * scale, own = fabs(rest[i]) * scale;
      int64_t same = (bits_of(py[i]) == bits_of(r[i])) | ((r[i] != r[i]) & (py[i] != py[i]));
      int64_t settled = (known[i] == SETTLED) & same;
      int64_t decided = (known[i] == KNOWN) & (error < margin) & (own < 0.5 - TABLE_ULP) & (py[i] != 0);
      hard[i] = 1 - (settled | decided);
      hard_count += hard[i];
      correct += (settled | decided) & same;
      errors[i] = decided ? error : 0;
    }
    for (int i = 0; i < n; i++) sums[i % 8] += errors[i];
    s->count += n;
    s->correct += correct;
    for (int i = 0; i < 8; i++) s->sum += sums[i];
    if (hard_count)
      for (int i = 0; i < n; i++)
        if (hard[i]) decide_double(row, pa[i], pb ? pb[i] : 0, py[i], s);
  }
}
