/* A table of polynomials for a function of one float64 argument: its value to some 66 bits in a few nanoseconds.

   Included by accuracy_reference.c. A binade is cut into equal cells, few or many as the function needs; a cell holds the
   polynomial through the 128-bit C library's values at Chebyshev points, its first three coefficients to twice the precision.
   When a cell is made, what the polynomial gives is compared with the 128-bit function between those points; the cell then says
   down to which size its values are trusted. What a table does not give (no cell, too small a value) is left to its caller.
   Nothing is assumed of the function: where it has a pole, a kink or too many waves, its cells just fail and are not used.
   Where it is no number, overflows or vanishes at all points of a cell, the cell says so. */

#define DEGREE 7
#define FEWEST_CELLS_LOG2 4
#define MOST_CELLS_LOG2 16
#define TRIAL_CELLS 16
#define EXTREME_EXPONENT 1000 /* of an argument: beyond, scaling could overflow */
#define SMALLEST_VALUE 0x1p-950 /* below, the lesser parts would lose bits */
#define LARGEST_VALUE 0x1p1020

typedef struct { double c0, c0_low, c1, c1_low, c2, c2_low, c3, c4, c5, c6, c7, trusted_from; } Cell;
typedef enum { UNKNOWN, SETTLED, KNOWN } Knowledge; /* settled: NaN, infinite or zero */
typedef struct { Cell *cells; int tried, shift; double per_half_width; } Binade;
typedef struct Table { widest (*function)(widest); double relative_error; struct Table *next; Binade binades[4096]; } Table;
static Table *tables;

static double double_of(uint64_t bits) { double x; memcpy(&x, &bits, 8); return x; }
static uint64_t bits_of(double x) { uint64_t bits; memcpy(&bits, &x, 8); return bits; }
static double power_of_two(int exponent) { return double_of((uint64_t)(exponent + 1023) << 52); }

/* high + low = a + b exactly; the same of high + low with |a| >= |b|. */
static inline void two_sum(double a, double b, double *high, double *low) {
  double s = a + b, v = s - a;
  *low = (a - (s - v)) + (b - v);
  *high = s;
}
static inline void fast_two_sum(double a, double b, double *high, double *low) {
  double s = a + b;
  *low = b - (s - a);
  *high = s;
}
/* (constant, constant_low) + t * (high, low) in place. */
static inline void horner_step(double t, double constant, double constant_low, double *high, double *low) {
  double product = t * *high, rest = fma(t, *high, -product) + t * *low, s, e;
  two_sum(constant, product, &s, &e);
  fast_two_sum(s, e + (constant_low + rest), high, low);
}

static inline void cell_value(const Cell *c, double t, double *high, double *low) {
  double tail = t * fma(t, fma(t, fma(t, fma(t, c->c7, c->c6), c->c5), c->c4), c->c3);
  two_sum(c->c2, tail, high, low);
  *low += c->c2_low;
  horner_step(t, c->c1, c->c1_low, high, low);
  horner_step(t, c->c0, c->c0_low, high, low);
}

static double chebyshev_points[DEGREE + 1];
static widest coefficients_from_values[DEGREE + 1][DEGREE + 1];

/* The points, and the coefficients of the polynomials that are 1 at one of them and 0 at the others. */
static void prepare_interpolation(void) {
  if (chebyshev_points[0] != 0) return;
  for (int i = 0; i <= DEGREE; i++) chebyshev_points[i] = cos(3.141592653589793 * (2 * i + 1) / (2 * DEGREE + 2));
  for (int i = 0; i <= DEGREE; i++) {
    widest product[DEGREE + 1] = {1};
    for (int j = 0; j <= DEGREE; j++) {
      if (j == i) continue;
      widest distance = (widest)chebyshev_points[i] - chebyshev_points[j];
      for (int k = DEGREE; k >= 0; k--)
        product[k] = ((k > 0 ? product[k - 1] : 0) - chebyshev_points[j] * product[k]) / distance;
    }
    for (int k = 0; k <= DEGREE; k++) coefficients_from_values[k][i] = product[k];
  }
}

static void split(widest value, double *high, double *low) {
  *high = (double)value;
  *low = (double)(value - *high);
}

/* NaN, an infinity or a zero where float64 has only that for a value and its neighbours; else 1. */
static double settled_value(widest value) {
  if (value != value) return NAN;
  double sign = value < 0 || (value == 0 && 1 / value < 0) ? -1 : 1, size = fabs((double)(value * (widest)0x1p-2));
  return size >= 0x1p1022 ? sign * INFINITY : size <= 0x1p-1074 && fabs((double)(value * 4)) <= 0x1p-1074 ? sign * 0.0 : 1;
}

typedef enum { SETTLED_CELL, STRANGE_CELL, BAD_CELL, GOOD_CELL } CellKind;

static CellKind make_cell(const Table *table, double center, double half_width, Cell *cell) {
  static const double between[] = {-1, 0.3826904296875, 1}; /* where the interpolation's error is largest */
  const int between_count = sizeof between / sizeof *between;
  widest values[DEGREE + 1], c[DEGREE + 1];
  double largest = 0, error = 0;
  int ordinary = 1, settled = 1;
  memset(cell, 0, sizeof *cell);
  cell->trusted_from = INFINITY;
  for (int i = 0; i <= DEGREE; i++) {
    values[i] = table->function(center + (widest)half_width * chebyshev_points[i]);
    double size = fabs((double)values[i]), special = settled_value(values[i]);
    ordinary &= size >= SMALLEST_VALUE && size <= LARGEST_VALUE;
    if (size > largest) largest = size;
    if (i == 0) cell->c0 = special;
    settled &= special != 1 && bits_of(special) == bits_of(cell->c0);
  }
  for (int i = 0; i < between_count && settled; i++)
    settled = bits_of(settled_value(table->function(center + (widest)half_width * between[i]))) == bits_of(cell->c0);
  if (settled) cell->trusted_from = -1;
  if (settled || !ordinary) return settled ? SETTLED_CELL : STRANGE_CELL;
  for (int k = 0; k <= DEGREE; k++) {
    c[k] = 0;
    for (int i = 0; i <= DEGREE; i++) c[k] += coefficients_from_values[k][i] * values[i];
  }
  split(c[0], &cell->c0, &cell->c0_low);
  split(c[1], &cell->c1, &cell->c1_low);
  split(c[2], &cell->c2, &cell->c2_low);
  cell->c3 = (double)c[3], cell->c4 = (double)c[4], cell->c5 = (double)c[5], cell->c6 = (double)c[6], cell->c7 = (double)c[7];
  for (int i = 0; i < between_count; i++) {
    double high, low;
    cell_value(cell, between[i], &high, &low);
    double off = fabs((double)(((widest)high - table->function(center + (widest)half_width * between[i])) + (widest)low));
    if (!(off <= error)) error = off;
  }
  double rounding = 0x1p-51 * (fabs(cell->c3) + fabs(cell->c4) + fabs(cell->c5) + fabs(cell->c6) + fabs(cell->c7));
  cell->trusted_from = (4 * error + rounding + 0x1p-100 * largest) / table->relative_error;
  if (!(cell->trusted_from <= largest)) cell->trusted_from = INFINITY;
  return cell->trusted_from < 0.5 * largest ? GOOD_CELL : BAD_CELL;
}

static double cell_center(uint64_t first_bits, int shift, uint64_t index) {
  return double_of(first_bits | index << shift | 1ull << (shift - 1));
}

/* Cuts a binade into cells, fewer if these do. */
static void make_binade(Table *table, uint64_t sign_and_exponent) {
  Binade *binade = &table->binades[sign_and_exponent];
  int exponent = (int)(sign_and_exponent & 0x7ff) - 1023;
  uint64_t first_bits = sign_and_exponent << 52;
  binade->tried = 1;
  if (exponent < -EXTREME_EXPONENT || exponent > 1023) return;
  prepare_interpolation();
  for (int cells_log2 = 0; cells_log2 <= MOST_CELLS_LOG2; cells_log2 += cells_log2 ? 1 : FEWEST_CELLS_LOG2) {
    int shift = 52 - cells_log2, kinds[GOOD_CELL + 1] = {0};
    uint64_t count = 1ull << cells_log2, trials = count < TRIAL_CELLS ? count : TRIAL_CELLS;
    double half_width = power_of_two(exponent - cells_log2 - 1);
    Cell trial;
    for (uint64_t i = 0; i < trials; i++)
      kinds[make_cell(table, cell_center(first_bits, shift, i * count / trials), half_width, &trial)]++;
    if (cells_log2 && kinds[STRANGE_CELL] == (int)trials) return;
    if (kinds[SETTLED_CELL] < (int)trials && 3 * kinds[BAD_CELL] >= kinds[GOOD_CELL]) continue;
    Cell *cells = malloc(count * sizeof *cells);
    if (!cells) return;
    for (uint64_t i = 0; i < count; i++) make_cell(table, cell_center(first_bits, shift, i), half_width, &cells[i]);
    binade->cells = cells;
    binade->shift = shift;
    binade->per_half_width = 1 / half_width;
    return;
  }
}

/* The cell that x lies in, and its place there from -1 to 1; NULL where the binade has none. */
static inline const Cell *cell_of(Table *table, double x, double *place) {
  uint64_t bits = bits_of(x);
  Binade *binade = &table->binades[bits >> 52];
  if (!binade->cells) {
    if (!binade->tried) make_binade(table, bits >> 52);
    if (!binade->cells) return 0;
  }
  uint64_t index = (bits & 0xfffffffffffffull) >> binade->shift;
  *place = (x - cell_center(bits & 0xfff0000000000000ull, binade->shift, index)) * binade->per_half_width;
  return &binade->cells[index];
}

/* What the table knows of the function at x: its value as a sum, or a special value as *high. */
static inline Knowledge table_value(Table *table, double x, double *high, double *low) {
  double place;
  const Cell *cell = cell_of(table, x, &place);
  if (!cell) return UNKNOWN;
  if (cell->trusted_from < 0) {
    *high = cell->c0, *low = 0;
    return SETTLED;
  }
  cell_value(cell, place, high, low);
  return fabs(*high) >= cell->trusted_from ? KNOWN : UNKNOWN;
}

#define GROUP 64

/* The same for many: cells are copied side by side first, so that the arithmetic runs in vectors. */
static void table_values(Table *table, const double *x, double *high, double *low, int64_t *known, int count) {
  static const Cell none = {.trusted_from = INFINITY};
  double place[GROUP], cells[sizeof(Cell) / sizeof(double)][GROUP];
  for (int start = 0; start < count; start += GROUP) {
    int n = count - start < GROUP ? count - start : GROUP;
    for (int i = 0; i < n; i++) {
      place[i] = 0;
      const Cell *cell = cell_of(table, x[start + i], &place[i]);
      double copy[sizeof(Cell) / sizeof(double)];
      memcpy(copy, cell ? cell : &none, sizeof copy);
      for (unsigned j = 0; j < sizeof(Cell) / sizeof(double); j++) cells[j][i] = copy[j];
    }
    for (int i = 0; i < n; i++) {
      Cell c = {cells[0][i], cells[1][i], cells[2][i], cells[3][i], cells[4][i], cells[5][i],
                cells[6][i], cells[7][i], cells[8][i], cells[9][i], cells[10][i], cells[11][i]};
      double h, l;
      cell_value(&c, place[i], &h, &l);
      int settled = c.trusted_from < 0, trusted = fabs(h) >= c.trusted_from;
      high[start + i] = settled ? c.c0 : trusted ? h : 1;
      low[start + i] = settled ? 0 : trusted ? l : 0;
      known[start + i] = settled ? SETTLED : trusted ? KNOWN : UNKNOWN;
    }
  }
}

/* The table of a function, empty when it is first asked for; NULL without memory. */
static Table *table_of(widest (*function)(widest), double relative_error) {
  for (Table *t = tables; t; t = t->next)
    if (t->function == function && t->relative_error == relative_error) return t;
  Table *t = calloc(1, sizeof *t);
  if (!t) return 0;
  t->function = function;
  t->relative_error = relative_error;
  t->next = tables;
  return tables = t;
}

void forget_tables(void) {
  while (tables) {
    Table *next = tables->next;
    for (int i = 0; i < 4096; i++) free(tables->binades[i].cells);
    free(tables);
    tables = next;
  }
}

/* ── two arguments: from tables of one, in twice the precision ── */

#define TABLE_ERROR 0x1p-66 /* of a value, relative */
#define LOGARITHM_ERROR 0x1p-77 /* for pow, where the exponential makes it up to 745 times larger */

static int moderate(double x, int exponent_limit) {
  return fabs(x) >= power_of_two(-exponent_limit) && fabs(x) <= power_of_two(exponent_limit);
}

static Knowledge t_hypot(double x, double y, double *high, double *low) {
  double larger = fabs(x) > fabs(y) ? fabs(x) : fabs(y), smaller = fabs(x) > fabs(y) ? fabs(y) : fabs(x);
  if (!moderate(larger, EXTREME_EXPONENT) || !(smaller >= 0)) return UNKNOWN;
  if (smaller * 0x1p70 < larger) {
    *high = larger, *low = 0;
    return KNOWN;
  }
  double scale = larger > 0x1p400 ? 0x1p-510 : larger < 0x1p-400 ? 0x1p510 : 1;
  larger *= scale, smaller *= scale;
  double square = larger * larger, other = smaller * smaller, sum, rest;
  two_sum(square, other, &sum, &rest);
  rest += fma(larger, larger, -square) + fma(smaller, smaller, -other);
  double root = sqrt(sum);
  fast_two_sum(root / scale, (fma(-root, root, sum) + rest) / (2 * root * scale), high, low);
  return KNOWN;
}

static Knowledge t_atan2(double y, double x, double *high, double *low) {
  const double pi = 0x1.921fb54442d18p1, pi_low = 0x1.1a62633145c07p-53;
  Table *table = table_of(WIDEST(atan), TABLE_ERROR);
  if (!moderate(x, 900) || !moderate(y, 900)) return UNKNOWN;
  double a = fabs(y), b = fabs(x), quotient = a / b, rest = fma(-quotient, b, a) / b, h, l, sign = copysign(1, y);
  if (!moderate(quotient, 900) || !table || table_value(table, quotient, &h, &l) != KNOWN) return UNKNOWN;
  l += rest / (1 + quotient * quotient);
  if (x < 0) {
    double angle = h, angle_low = l;
    two_sum(pi, -angle, &h, &rest);
    l = rest + (pi_low - angle_low);
  }
  fast_two_sum(sign * h, sign * l, high, low);
  return KNOWN;
}

/* log x = high + low, for positive x. */
static Knowledge logarithm(double x, double *high, double *low) {
  static double ln2[3]; /* products of the first two with an exponent are exact */
  Table *table = table_of(WIDEST(log1p), LOGARITHM_ERROR);
  if (ln2[0] == 0) {
    widest exact = WIDEST(log)(2);
    ln2[0] = (float)exact;
    ln2[1] = (float)(exact - ln2[0]);
    ln2[2] = (double)(exact - ln2[0] - ln2[1]);
  }
  int exponent;
  double m = 2 * frexp(x, &exponent), h, l, log_m = 0, log_m_low = 0, rest;
  exponent--;
  if (m > 1.4142) m /= 2, exponent++;
  if (m != 1 && (!table || table_value(table, m - 1, &log_m, &log_m_low) != KNOWN)) return UNKNOWN;
  two_sum(exponent * ln2[0], exponent * ln2[1], &h, &l);
  two_sum(h, log_m, &h, &rest);
  fast_two_sum(h, rest + (l + exponent * ln2[2] + log_m_low), high, low);
  return KNOWN;
}

static Knowledge t_pow(double x, double y, double *high, double *low) {
  Table *table = table_of(WIDEST(exp), TABLE_ERROR);
  double sign = 1, h, l;
  if (!moderate(x, EXTREME_EXPONENT) || !moderate(y, EXTREME_EXPONENT)) return UNKNOWN;
  if (x < 0) {
    if (y != rint(y)) {
      *high = NAN, *low = 0;
      return SETTLED;
    }
    if (fabs(y) < 0x1p53 && (int64_t)y & 1) sign = -1;
  }
  if (!table || logarithm(fabs(x), &h, &l) != KNOWN) return UNKNOWN;
  double product = y * h, rest = fma(y, h, -product) + y * l;
  if (fabs(product) < 0x1p-100) {
    *high = sign, *low = sign * product;
    return KNOWN;
  }
  Knowledge known = table_value(table, product, &h, &l);
  if (known == KNOWN) fast_two_sum(sign * h, sign * (l + h * rest), high, low);
  else *high = sign * h, *low = 0;
  return known;
}

static Knowledge t_logaddexp(double a, double b, double *high, double *low) {
  if (!moderate(a, EXTREME_EXPONENT) || !moderate(b, EXTREME_EXPONENT)) return UNKNOWN;
  double larger = a > b ? a : b, smaller = a > b ? b : a, difference, rest, h, l;
  two_sum(smaller, -larger, &difference, &rest);
  if (difference < -800) {
    *high = larger, *low = 0;
    return KNOWN;
  }
  Table *table = table_of(w_softplus, TABLE_ERROR);
  if (!table || table_value(table, difference, &h, &l) != KNOWN) return UNKNOWN;
  l -= rest * expm1(-h); /* the derivative of softplus is 1 - exp(-softplus) */
  double term = h;
  two_sum(larger, h, &h, &rest);
  fast_two_sum(h, rest + l, high, low);
  return fabs(*high) >= term ? KNOWN : UNKNOWN;
}
