"""The ledger against an independent counter, on random programs, shapes, dtypes and devices, and the textbook
example."""

import math
import random

import pytest

import fuseline.machine
from fuseline.api.defaults import EXPLAINED_SHAPE
from fuseline.api.explaining import explain
from fuseline.api.roofline import classify, formula_cost
from fuseline.cost.ledger import Ledger, Line, Rates, Sizes, Times, compute_dtype, make_ledger, times
from fuseline.errors import LimitError, ProvenanceError, UnknownNameError
from fuseline.ir.dtype import BOOL, F16, F32, F64, I8, I64
from fuseline.plan.launch import single_launches
from fuseline.units import Quantity, Source, SourceKind

COURSE = "h = x + b; y = 0.5*h*(1 + tanh(0.7978845608*(h + 0.044715*h*h*h))); out = y + r"
BYTES = {"bf16": 2, "f16": 2, "f32": 4, "f64": 8}
UNARY = ("exp", "tanh", "sqrt", "abs", "floor", "-")
BINARY = ("+", "-", "*", "/", "maximum", "minimum")
BROADCASTS = (("T", "D"), ("D",), ("T", "1"), ("1", "D"), ("1",))


class Counter:
    """A random straight-line program written as text and counted by hand: no code shared with fuseline."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sizes = {"T": rng.choice([1, 3, 64, 4096]), "D": rng.choice([1, 7, 128, 14336]), "1": 1}
        # Sizes that happen to be 1 broadcast by name all the same.
        self.dtype = rng.choice(list(BYTES))
        self.shapes = {f"a{i}": rng.choice(BROADCASTS) for i in range(rng.randint(1, 4))}
        self.shapes["a0"] = ("T", "D")
        self.inputs = list(self.shapes)
        self.lines = [f"{n}: {self.dtype}[{', '.join(s)}]" for n, s in self.shapes.items()]
        self.read: set[str] = set()
        self.instructions: list[tuple[tuple[str, ...], str]] = []
        self.seen: set[str] = set()
        self.marked: set[str] = set()
        for i in range(rng.randint(1, 25)):
            self.add(f"v{i}")
        if not self.instructions:
            self.add_last()
        self.outputs = {name: name for _, name in self.instructions if name not in self.read}
        """The value of each output; None is a number."""

    def draw_outputs(self) -> None:
        """Outputs of every kind: inputs, numbers, results that are read inside or not, several names of one value."""
        computed = [name for _, name in self.instructions]
        self.outputs = {}
        for i in range(self.rng.randint(1, 6)):
            value = self.rng.choice([None, *self.inputs, *computed, *computed])
            if value in computed and value not in self.outputs:
                self.outputs[value] = value
            else:
                self.outputs[f"o{i}"] = value
                self.lines.append(f"o{i} = {value or self.rng.choice(['7', '0.25'])}")

    def drop_what_is_not_needed(self) -> None:
        needed = set(self.outputs.values())
        for args, name in reversed(self.instructions):
            if name in needed:
                needed |= set(args)
        self.instructions = [(args, name) for args, name in self.instructions if name in needed]
        self.inputs = [name for name in self.inputs if name in needed]

    def add(self, name: str) -> None:
        values = list(self.shapes)
        a, b = self.rng.choice(values), self.rng.choice(values)
        if self.rng.random() < 0.4:
            op = self.rng.choice(UNARY)
            text, operands = (f"-{a}", [a]) if op == "-" else (f"{op}({a})", [a])
        elif self.rng.random() < 0.3:
            op, number = self.rng.choice("+*"), self.rng.choice([3.0, 5.5, 0.3])
            text, operands = f"{a} {op} {number}", [a]
        else:
            op = self.rng.choice(BINARY)
            text = f"{a} {op} {b}" if len(op) == 1 else f"{op}({a}, {b})"
            operands = [a, b]
        # Programs in which no rewrite applies and nothing is written twice: the counter counts what stands there.
        same_twice = a == b and op in ("maximum", "minimum")
        undone = op in ("-", "abs", "floor") and len(operands) == 1 and a in self.marked
        if text in self.seen or same_twice or undone:
            return
        self.seen.add(text)
        if len(operands) == 1 and op in ("-", "abs", "floor"):
            self.marked.add(name)
        self.shapes[name] = self.joined([self.shapes[o] for o in operands])
        self.read |= set(operands)
        self.instructions.append((tuple(dict.fromkeys(operands)), name))
        self.lines.append(f"{name} = {text}")

    def add_last(self) -> None:
        self.shapes["last"] = self.shapes["a0"]
        self.read.add("a0")
        self.instructions.append((("a0",), "last"))
        self.lines.append("last = cosh(a0)")

    @staticmethod
    def joined(shapes: list[tuple[str, ...]]) -> tuple[str, ...]:
        rank = max(map(len, shapes))
        padded = [("1",) * (rank - len(s)) + s for s in shapes]
        return tuple(next((d for d in dims if d != "1"), "1") for dims in zip(*padded, strict=True))

    def elements(self, name: str) -> int:
        return math.prod(self.sizes[d] for d in self.shapes[name])

    def size(self, name: str | None) -> int:
        """Bytes; a number alone is an i64 or an f64."""
        return 8 if name is None else BYTES[self.dtype] * self.elements(name)


@pytest.mark.parametrize("seed", range(1000))
def test_traffic_equals_an_independent_count(seed):
    counter = Counter(random.Random(seed))
    devices = [d for d in fuseline.machine.devices() if d.memories and d.main_memory.find_bandwidth() is not None]
    device = counter.rng.choice(devices)
    sizes = {k: v for k, v in counter.sizes.items() if k != "1"}
    used = {d for n in (*counter.inputs, *(name for _, name in counter.instructions)) for d in counter.shapes[n]}
    if seed % 2:
        counter.draw_outputs()
    counter.drop_what_is_not_needed()
    named = {k: v for k, v in sizes.items() if k in used}
    e = explain("\n".join(counter.lines), device=device, sizes=named, outputs=list(counter.outputs))
    t = e.to_dict()["traffic"]
    assert e.to_dict()["instruction_count"] == len(counter.instructions)
    # Unfused: an instruction reads its distinct operands and writes its result; what no instruction writes is copied.
    kernels = [(*args, name) for args, name in counter.instructions]
    written = {name for _, name in counter.instructions}
    for value in counter.outputs.values():
        if value in written:
            written.remove(value)
        else:
            kernels.append((None,) if value is None else (value, value))
    moved = sum(counter.size(n) for kernel in kernels for n in kernel)
    assert t["unfused"]["array_accesses"] == sum(map(len, kernels))
    assert t["unfused"]["bytes"] == moved
    assert t["unfused"]["kernels"] == len(kernels)
    bandwidth = device.main_memory.bandwidth.value
    assert t["unfused"]["bandwidth_time_s"] == pytest.approx(moved / bandwidth)
    # Fused: each input once, each output once.
    crossing = [*counter.inputs, *counter.outputs.values()]
    fused = sum(map(counter.size, crossing))
    assert t["fused"]["bytes"] == fused
    assert t["fused"]["array_accesses"] == len(crossing)
    assert t["fused"]["kernels"] == 1
    flops = sum(counter.elements(name) for _, name in counter.instructions)
    assert e.traffic.flops == flops
    assert e.traffic.arithmetic_intensity_flop_per_byte == pytest.approx(flops / fused)


@pytest.mark.parametrize(
    ("text", "outputs", "fused", "unfused"),
    [
        ("a = x; b = x + 1", ["a", "b"], (3, 384, 1), (4, 512, 2)),
        ("y = x + b; z = x", ["y", "z"], (4, 512, 1), (5, 640, 2)),
        ("y = x; z = 2; w = x*3", ["y", "z", "w"], (4, 392, 1), (5, 520, 3)),
        ("a = x + 1; b = x + 1", ["a", "b"], (3, 384, 1), (4, 512, 2)),
        ("a = x; b = x", ["a", "b"], (3, 384, 1), (4, 512, 2)),
        ("b: f32[8]; a = b; y = x + b", ["a", "y"], (4, 320, 1), (5, 352, 2)),
        ("m = max(x, -1); y = x", ["m", "y"], (3, 272, 1), (4, 400, 2)),
        ("m = max(x, -1); n = 7", ["m", "n"], (3, 152, 1), (3, 152, 2)),
    ],
)
def test_an_output_that_is_an_input_is_read_with_the_others(text, outputs, fused, unfused):
    found = explain(text, shape=(4, 8), dtype="f32", outputs=outputs).to_dict()["traffic"]
    for plan, wanted in (("fused", fused), ("unfused", unfused)):
        assert tuple(found[plan][key] for key in ("array_accesses", "bytes", "kernels")) == wanted


def test_textbook_example_on_h100():
    d = explain(COURSE).to_dict()
    unfused, fused = d["traffic"]["unfused"], d["traffic"]["fused"]
    assert (d["instruction_count"], d["depth"]) == (11, 10)
    assert next(i for i in d["instructions"] if i["name"] == "h")["users"] == 5
    assert (unfused["array_accesses"], fused["array_accesses"]) == (28, 4)
    assert unfused["bytes"] == 28 * 2 * 4096 * 14336
    assert fused["bytes"] == 4 * 2 * 4096 * 14336
    assert unfused["bandwidth_time_s"] * 1e6 == pytest.approx(981.6, abs=0.05)
    assert fused["bandwidth_time_s"] * 1e6 == pytest.approx(140.2, abs=0.05)
    assert (unfused["kernels"], fused["kernels"]) == (11, 1)
    assert d["arithmetic_intensity_flop_per_byte"] == 1.375
    assert d["ridge_point_flop_per_byte"] == pytest.approx(295.3, abs=0.05)
    assert d["ridge_point_vector_flop_per_byte"] == pytest.approx(20.0, abs=0.05)
    assert d["bound"] == "memory"
    memory = d["memory"]
    assert (memory["naive_buffers"], memory["planned_buffers"], memory["best_order_buffers"]) == (11, 3, 2)


def test_broadcast_operand_counts_its_own_bytes():
    text = "x: bf16[T, D]\nb: bf16[D]\nr: bf16[T, D]\n" + COURSE
    e = explain(text, sizes={"T": 4096, "D": 14336})
    assert e.traffic.fused.bytes == 2 * (3 * 4096 * 14336 + 14336)


def test_small_launches_are_bound_by_latency():
    small = explain(COURSE, shape=(1, 4096))
    assert small.traffic.launch_dominated and small.to_dict()["launch_dominated"] is True
    assert not explain(COURSE).traffic.launch_dominated


def test_each_dtype_counts_its_own_size():
    e = explain("x: f32[N]\nb: i8[N]\ny = f64(x*b)", sizes={"N": 1000})
    assert e.traffic.fused.bytes == 1000 * (4 + 1 + 8)
    assert e.traffic.unfused.bytes == 1000 * (4 + 1 + 4) + 1000 * (4 + 8)


def test_declared_and_undeclared_arrays_meet_once_sizes_are_given():
    e = explain("x: bf16[T, D]\ny = x + b", shape=(8, 16), sizes={"T": 8, "D": 16})
    assert e.traffic.fused.bytes == 3 * 2 * 8 * 16


def test_a_size_that_no_array_has_is_named():
    with pytest.raises(ValueError, match="no array has a size called Q"):
        explain("x: f32[T]; y = x + 1", sizes={"T": 4, "Q": 5})


def test_json_names_what_the_program_has_not_what_was_the_default():
    d = explain("x: i8[N]; y = x*x + x", sizes={"N": 1000}).to_dict()
    assert (d["dtype"], d["shape"]) == ("i8", [1000])
    assert d["ridge_point_flop_per_byte"] == pytest.approx(1979e12 / 3.35e12, rel=1e-3)
    assert explain(COURSE).to_dict()["shape"] == [4096, 14336]


def test_launches_of_different_bounds_add_up_one_by_one():
    # An instruction that reads one array twice moves it once: i + i is two bytes, the cast nine, the sum 24.
    n = 1 << 20
    e = explain("x: f64[N]; i: i8[N]; y = i + i; z = x + f64(y)", sizes={"N": n}, device="h100-sxm")
    bandwidth, peak, launch = e.traffic.bandwidth.value, e.traffic.vector_peak.value, e.traffic.launch_latency.value
    moved = [2 * n, 9 * n, 24 * n]
    wanted = sum(max(b / bandwidth, n / peak) + launch for b in moved)
    assert e.traffic.unfused.total_s == pytest.approx(wanted)


KINDS = ("datasheet", "achievable", "effective", "measured", "derived", "model constant", "assumed")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("part", "sparse"), [("vector", False), ("vector", True), ("hbm", False)])
def test_explain_predicts_a_time_from_a_figure_where_classify_does(part: str, kind: str, sparse: bool) -> None:
    """Of one figure of a machine there is one answer, whichever command is asked."""
    figures = {"vector": '"60 TFLOPS"', "hbm": '"3 TB/s"'}
    figures[part] = f"{{ value = {figures[part]}, kind = {kind!r}{', sparse = true' if sparse else ''} }}"
    text = f"""
format = 1
[[device]]
name = "x-1"
[device.pipes.vector]
f32 = {figures["vector"]}
[device.memories.hbm]
bandwidth = {figures["hbm"]}
"""
    (machine,) = fuseline.machine.parse_device_text(text)
    e = explain("out = x + y", device=machine)
    mine = e.traffic.fused.compute_time_s if part == "vector" else e.traffic.fused.bandwidth_time_s
    formula = formula_cost("out = x + y", EXPLAINED_SHAPE)
    try:
        shape = classify(cost=formula, device=machine).shapes[0].analysis
    except ProvenanceError:
        assert mine is None
        assert e.to_dict()["bound"] is None
        reasons = ["sparse"] * sparse + [kind] * (kind in ("model constant", "assumed"))
        assert e.to_dict()["refused"] == {"memory" if part == "hbm" else part: reasons}
    else:
        assert mine == pytest.approx(float(shape.pipes[0].time_s if part == "vector" else shape.memory_time_s))
        assert e.to_dict()["bound"] == shape.bound
        assert e.to_dict()["refused"] == {}


def test_a_ridge_point_rests_on_no_sparse_peak_and_on_a_models_constant() -> None:
    text = """
format = 1
[[device]]
name = "x-1"
[device.pipes.matrix]
bf16 = { value = "200 TFLOPS", PEAK }
[device.memories.hbm]
bandwidth = { value = "2 TB/s", kind = "BANDWIDTH" }
"""

    def ridge(peak: str, bandwidth: str) -> float | None:
        (machine,) = fuseline.machine.parse_device_text(text.replace("PEAK", peak).replace("BANDWIDTH", bandwidth))
        return explain("x + y", device=machine).traffic.ridge_point_flop_per_byte

    assert ridge('kind = "datasheet"', "datasheet") == 100
    assert ridge('kind = "model constant"', "model constant") == 100  # compared with, not predicted from
    assert ridge("sparse = true", "datasheet") is None
    assert ridge('kind = "datasheet"', "assumed") is None


def test_copies_do_no_work_however_alike_they_are_to_instructions() -> None:
    graph = fuseline.graph("x: f32[8, 16]; a = x; b = -x; c = b*b", outputs=["a", "b", "c"])
    ledger = make_ledger(single_launches(graph), Sizes({}))
    assert (ledger.kernels, ledger.array_accesses, ledger.bytes, ledger.flops) == (3, 6, 6 * 512, 2 * 128)
    assert sorted((line.launches, line.flops) for line in ledger.lines) == [(1, 0), (1, 128), (1, 128)]


def test_sizes_that_are_missing_or_beyond_64_bits_are_refused() -> None:
    (x,) = fuseline.graph("x + 1").inputs
    with pytest.raises(UnknownNameError, match="the arrays have no shape"):
        Sizes({}).bytes_of(x)
    for largest, factor in ((2**63 - 1, 1), (2**63, 0)):
        sizes = Sizes({}, (largest,))
        if factor:
            assert sizes.elements(x) == sizes.elements(x) == largest
            assert sizes.bytes_of(x) == sizes.bytes_of(x) == 4 * largest
        else:
            with pytest.raises(LimitError, match=r"2\*\*63 elements or more"):
                sizes.elements(x)


def test_a_program_is_bound_by_the_rates_of_its_widest_float() -> None:
    assert compute_dtype([F32, I64, BOOL]) is F32
    assert compute_dtype([F16, F64, F32]) is F64
    assert compute_dtype([I8, I64]) is I64
    assert compute_dtype([BOOL]) is compute_dtype([]) is F32


def test_times_rest_on_what_a_time_may_be_predicted_from() -> None:
    ledger = Ledger((Line(2, 3, 1000, 400), Line(1, 2, 100, 900)))

    stated = Source(SourceKind.DATASHEET)

    def of(vector: Quantity | None) -> Times:
        bandwidth, latency = Quantity(100.0, "B/s", stated), Quantity(0.5, "s", stated)
        return times(ledger, Rates(bandwidth, vector, None, latency))

    assert of(Quantity(20.0, "FLOP/s", stated)) == Times(21.0, 85.0, 1.5, 2 * 20 + 45 + 1.5)
    for unfit in (None, Quantity(20.0, "FLOP/s", stated, sparse=True)):
        assert of(unfit) == Times(21.0, None, 1.5, 2 * 10 + 1 + 1.5)
