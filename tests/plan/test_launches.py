"""Plans: what may run together, what crosses a launch's border, and how loops print."""

import numpy as np
import pytest

from fuseline.api.program import graph, optimize
from fuseline.codegen.numpy import build_steps
from fuseline.errors import VerifyError
from fuseline.plan.launch import Launch, Plan, check_plan, fused, single_launches
from fuseline.plan.loopnest import nest_text

SOFTMAX = "x: f32[T, D]\nm = max(x, -1)\ne = exp(x - m)\ns = sum(e, -1)\ny = e / s\n"


def test_elementwise_programs_are_one_launch():
    g = optimize(graph("h = x + b; y = h*h + exp(h)"))
    plan = check_plan(fused(g))
    assert len(plan.launches) == 1
    assert [g.label(n) for n in plan.launches[0].reads] == ["x", "b"]
    assert len(check_plan(Plan(g, tuple(single_launches(g)))).launches) == len(g.nodes)


def test_broadcasting_shapes_share_loops_and_unrelated_ones_do_not():
    together = graph("x: f32[T, D]; b: f32[D]; c = b*2; y = x + c")
    assert len(fused(together).launches) == 1
    apart = graph("x: f32[T]; y: f32[D]; a = x*2; b = y*2")
    assert len(check_plan(fused(apart)).launches) == 2


def test_softmax_is_one_launch_of_three_inner_loops():
    g = optimize(graph(SOFTMAX))
    plan = check_plan(fused(g))
    assert len(plan.launches) == 1
    text = nest_text(g, plan.launches[0].nest)
    assert text.splitlines() == [
        "for i0 in T (parallel):",
        "  for i1 in D (reduction):",
        "    %m[i0,0] <- max %x[i0,i1]",
        "  for i1 in D (reduction):",
        "    %1[i0,i1] = sub %x[i0,i1], %m[i0,0]",
        "    %e[i0,i1] = exp %1[i0,i1]",
        "    %s[i0,0] <- sum %e[i0,i1]",
        "  for i1 in D (parallel):",
        "    %y[i0,i1] = div %e[i0,i1], %s[i0,0]",
    ]


def test_softmax_runs_through_the_numpy_text():
    x = np.random.default_rng(0).standard_normal((5, 33)).astype(np.float32)
    y = build_steps(optimize(graph(SOFTMAX))).run({"x": x})["y"]
    wide = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    np.testing.assert_allclose(y, wide / wide.sum(-1, keepdims=True), rtol=1e-6)


def test_reductions_over_different_axes_are_launched_apart():
    g = graph("x: f32[T, D]; a = sum(x, 0); b = sum(x, 1)")
    assert len(check_plan(fused(g)).launches) == 2


def test_a_reduction_that_drops_its_axis_is_not_read_inside_its_launch():
    g = graph("x: f32[T, T]; a = sum(x, 1, keepdims=False); y = x*2 + a")
    plan = check_plan(fused(g))
    first = next(launch for launch in plan.launches if any(n.op == "sum" for n in launch.nodes))
    assert not any(n.args and any(a.op == "sum" for a in n.args) for n in first.nodes)


@pytest.mark.parametrize("order", [("a", "s", "b"), ("a", "b", "s"), ("s", "a", "b")])
def test_what_runs_together_does_not_depend_on_the_order_of_independent_statements(order):
    statements = {"a": "a = x + 1", "s": "s = y*2", "b": "b = a*3"}
    text = "; ".join(["x: f32[64, 64]; y: f32[7]", *[statements[name] for name in order]])
    plan = check_plan(fused(optimize(graph(text, outputs=["s", "b"]))))
    assert sorted(len(launch.nodes) for launch in plan.launches) == [1, 2]


def test_plans_of_random_programs_keep_operands_before_their_readers():
    generator = np.random.default_rng(3)
    for _ in range(60):
        lines, names = ["x: f32[T, D]; y: f32[D]; z: f32[T]"], ["x", "y", "z"]
        for i in range(int(generator.integers(2, 25))):
            a, b = generator.choice(names, 2)
            made = [f"v{i} = {a}*2", f"v{i} = {a} + 1", f"v{i} = sum({b}, -1)", f"v{i} = exp({a})", f"v{i} = {a}*{a}"]
            lines.append(str(generator.choice(made)))
            names.append(f"v{i}")
        check_plan(fused(graph("\n".join(lines), outputs=names[3:])))


@pytest.mark.parametrize("reduction", ["sum(x, keepdims=True)", "sum(x)"])
def test_what_reads_a_reduction_over_all_axes_waits_for_a_launch_of_it(reduction):
    plan = check_plan(fused(optimize(graph(f"x: f32[T, D]; y = x / {reduction}"))))
    assert [len(launch.nodes) for launch in plan.launches] == [1, 1]


def test_an_output_that_is_an_input_is_copied():
    plan = check_plan(fused(graph("y = x")))
    assert [len(launch.nodes) for launch in plan.launches] == [0]
    assert plan.launches[0].reads == plan.launches[0].writes


@pytest.mark.parametrize("broken", ["missing", "twice", "early"])
def test_the_checker_catches_a_broken_plan(broken):
    g = graph("a = x + 1; b = a*2")
    first, second = single_launches(g)
    launches = {"missing": (first,), "twice": (first, first, second), "early": (second, first)}[broken]
    with pytest.raises(VerifyError):
        check_plan(Plan(g, launches))


def test_the_checker_catches_an_incomplete_border():
    g = graph("a = x + 1; b = a*2")
    first, second = single_launches(g)
    with pytest.raises(VerifyError, match="reads"):
        check_plan(Plan(g, (first, Launch(second.nodes, (), second.writes))))


@pytest.mark.parametrize(
    ("text", "single", "together"),
    [("a = x + 1; b = x + 1", (2, 4), (1, 3)), ("a = x; b = x", (2, 4), (1, 3)), ("a = 2; b = 2", (2, 2), (1, 2))],
)
def test_two_names_of_one_value_are_two_arrays(text, single, together):
    """Alone each of them is written by a kernel; the second copies what is there."""
    g = graph(text)
    for plan, wanted in ((Plan(g, tuple(single_launches(g))), single), (fused(g), together)):
        check_plan(plan)
        assert (len(plan.launches), sum(len(x.reads) + len(x.writes) for x in plan.launches)) == wanted


def test_an_output_that_is_an_input_is_written_by_the_launch_that_reads_it():
    text = "x: f32[64]; y: f32[7]; a = x*2; b = y*2; c = {}"
    for source in ("x", "y", "2"):
        plan = check_plan(fused(graph(text.format(source), outputs=["a", "b", "c"])))
        assert [len(launch.nodes) for launch in plan.launches] == [1, 1]
        (copying,) = [launch for launch in plan.launches if launch.copies]
        assert source == "2" or copying.copies == copying.reads


def test_copies_whose_shapes_do_not_meet_are_launched_apart():
    text = "x: f32[1]; y: f32[T]; z: f32[D]; a = x; b = y; c = z"
    plan = check_plan(fused(graph(text)))
    assert [[n.attr("name") for n in launch.copies] for launch in plan.launches] == [["x", "y"], ["z"]]
    assert "b[i0] = %y[i0]" in nest_text(plan.graph, plan.launches[0].nest)


def test_copies_stand_in_the_loops_that_read_them_or_before_them():
    g = graph("x: f32[T, D]; b: f32[D]; m = max(x + b, -1); y = x; a = b; n = 3", outputs=["m", "y", "a", "n"])
    (launch,) = check_plan(fused(g)).launches
    assert nest_text(g, launch.nest).splitlines() == [
        "for i0 in D (parallel):",
        "  a[i0] = %b[i0]",
        "n = 3",
        "for i0 in T (parallel):",
        "  for i1 in D (reduction):",
        "    %0[i0,i1] = add %x[i0,i1], %b[i1]",
        "    %m[i0,0] <- max %0[i0,i1]",
        "    y[i0,i1] = %x[i0,i1]",
    ]


def test_the_checker_catches_an_output_that_no_launch_writes():
    for text in ("a = x; b = x + 1", "a = 2; b = x + 1", "c = x + 1; a = c; b = c"):
        g = graph(text, outputs=["a", "b"])
        check_plan(Plan(g, tuple(single_launches(g))))
        for missing in range(2):
            launches = [x for i, x in enumerate(single_launches(g)) if i != missing]
            with pytest.raises(VerifyError):
                check_plan(Plan(g, tuple(launches)))


def test_numbers_join_the_loops_of_open_shapes_and_reductions_do_not():
    assert len(fused(graph("s: f32[]; a = s*2; out = x*a + y")).launches) == 1
    assert len(fused(graph("out = x + sum(x)")).launches) == 2


def test_axes_are_compared_as_those_of_one_shape():
    """Axis 0 of a vector is axis 1 of the matrix whose loops it would join."""
    for text in ("s = sum(x, 0); t = sum(b, 0)", "t = sum(b, 0); s = sum(x, 0)", "s = sum(x, 0); t = b*2"):
        plan = check_plan(fused(graph(f"x: f32[T, D]; b: f32[D]; {text}")))
        assert [len(launch.nodes) for launch in plan.launches] == [1, 1]


def test_a_reduction_to_the_shape_of_the_loops_before_it_does_not_join_them():
    g = graph("x: f32[4, 4]; y: f32[4]; a = y + 1; s = sum(x, 1, keepdims=False)")
    first, second = check_plan(fused(g)).launches
    assert [n.op for n in (*first.nodes, *second.nodes)] == ["add", "sum"]
    assert "for i0 in 4 (parallel):\n  for i1 in 4 (reduction):" in nest_text(g, second.nest)


def test_where_shapes_are_the_callers_single_numbers_stand_before_the_loop():
    g = graph("s: f32[]; a = s*2; out = x*a + y; z = s", outputs=["out", "z"])
    (launch,) = check_plan(fused(g)).launches
    assert nest_text(g, launch.nest).splitlines() == [
        "z[] = %s[]",
        "%a = mul %s, 2.0",
        "for i0 in elements (parallel):",
        "  %1 = mul %x, %a",
        "  %out = add %1, %y",
    ]
    total = graph("s = sum(x)")
    (launch,) = check_plan(fused(total)).launches
    assert nest_text(total, launch.nest) == "%s[] = sum %x\n"
