"""The host as a machine: the kernels do what they count, and the result is kept and read like any other machine."""

import numpy as np
import pytest

import fuseline as fl
from fuseline.machine.host import host_file, load_host
from fuseline.runtime import host, probe, probe_kernels, probe_rates

pytestmark = pytest.mark.skipif(not host.target_names(), reason="no compiled kernels on this processor")

TINY = probe_rates.Effort(1e-4, 1)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FUSELINE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def kernels():
    return probe_kernels.kernels()


def arrays(vectors):
    size = vectors * host.host_target().vector_bytes
    found = [probe_rates._aligned(size) for _ in range(3)]
    for seed, array in enumerate(found):
        array.view(np.uint32)[:] = np.random.default_rng(seed).integers(1, 2**20, size // 4)
    return found


@pytest.mark.parametrize("name", ["copy", "copy_past"])
def test_the_copy_kernels_copy(kernels, name):
    dst, a, b = arrays(16)
    kernels[name](dst.ctypes.data, a.ctypes.data, b.ctypes.data, 16, 2)
    assert (dst == a).all()


@pytest.mark.parametrize("name", ["triad", "triad_past"])
def test_the_triad_kernels_add(kernels, name):
    dst, a, b = arrays(16)
    for array in (a, b):
        array.view(np.float32)[:] = np.random.default_rng(5).random(array.size // 4, np.float32)
    kernels[name](dst.ctypes.data, a.ctypes.data, b.ctypes.data, 16, 3)
    assert (dst.view(np.float32) == a.view(np.float32) + b.view(np.float32)).all()


def test_the_read_kernel_reads_every_element(kernels):
    dst, a, b = arrays(16)
    lanes = host.host_target().vector_bytes // 4
    found = kernels["read"](dst.ctypes.data, a.ctypes.data, b.ctypes.data, 16, 1)
    assert found == np.bitwise_xor.reduce(a.view(np.uint32).reshape(-1, lanes), axis=0)[0]


@pytest.mark.parametrize(("dtype", "element", "bits"), [("f32", np.float32, np.uint32), ("f64", np.float64, np.uint64)])
def test_the_fma_kernel_runs_every_chain_as_often_as_it_counts(kernels, dtype, element, bits):
    lanes = host.host_target().vector_bytes // element().itemsize
    factor = np.full(lanes, 0.5, element)
    summand = np.arange(1, 13 * lanes + 1, dtype=element)
    found = kernels[f"fma_{dtype}"](None, factor.ctypes.data, summand.ctypes.data, 3, 2)
    chains = summand[lanes::lanes].copy()
    for _ in range(6):
        chains = chains * element(0.5) + summand[0]
    total = chains[0]
    for chain in chains[1:]:
        total = total + chain
    assert int(found) & int(np.iinfo(bits).max) == int(np.array(total, element).view(bits))


def test_levels_grow_and_end_with_the_memory():
    found = probe.levels()
    sizes = [level.size_bytes for level in found]
    assert found[-1].name == "dram" and sizes == sorted(sizes)
    assert all(level.working_set_bytes > 0 for level in found)


def test_the_host_is_measured_kept_and_then_a_machine_like_any_other(monkeypatch):
    monkeypatch.setattr(probe, "QUICK", TINY)
    assert load_host() is None
    measured = fl.probe(quick=True)
    assert measured.name == "host" and host_file().exists()
    kept = fl.device("host")
    assert kept.memories == measured.memories and kept.pipes == measured.pipes
    assert kept.main_memory.name == "dram"
    bandwidth = kept.main_memory.bandwidth
    assert bandwidth.source.kind == "measured" and bandwidth.source.date
    kinds = {quantity.source.document.split(",")[0] for quantity in kept.main_memory.bandwidths}
    assert kinds == {"copy", "read", "triad"}
    assert kept.launch_latency.source.kind == "measured"
    assert fl.classify(m=64, n=64, k=64, dtype="f32", device="host").bound in ("compute", "memory")
    monkeypatch.setattr(probe, "_device_text", lambda effort: pytest.fail("measured again"))
    assert fl.probe() == kept or fl.probe().memories == kept.memories


def test_the_limit_is_the_best_that_any_run_reached(monkeypatch):
    """Also where a shared machine made all threads slower than one."""
    rates = {("copy", 4): 9e9, ("read", 4): 12e9, ("triad", 4): 8e9, ("copy", 1): 20e9, ("read", 1): 15e9}
    monkeypatch.setattr(probe.threads, "available", lambda: 4)
    monkeypatch.setattr(probe, "bandwidth", lambda _, kind, size, count, effort: rates.get((kind, count), 10e9))
    monkeypatch.setattr(probe, "fma_rate", lambda _, dtype, count, effort: 50e9 if count == 1 else 40e9)
    measured = fl.probe(again=True, quick=True)
    for memory in measured.memories:
        assert memory.bandwidth.value == max(q.value for q in memory.bandwidths) == 20e9
        assert memory.bandwidth.source.document.startswith("copy, 1 thread,")
    for reached in (*rates.values(), 10e9):
        row = fl.classify(tflops=0.05, gbps=reached / 1e9, dtype="f32", device=measured).rows[0]
        assert "impossible-ratio" not in [note.code for note in row.notes]
