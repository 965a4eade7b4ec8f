"""``fuseline doctor``: what this machine offers, one line an item, each with what to do about it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from fuseline._version import __version__
from fuseline.cli.options import JsonOption, LangOption
from fuseline.errors import CompilerError, FuselineError, UnsupportedError
from fuseline.excerpts import printable
from fuseline.report.catalogue import resolve_language, text
from fuseline.report.document import Cells, Column, Document, Remarks, Section, Table
from fuseline.report.installing import install_features, pip_install
from fuseline.report.json_text import print_json
from fuseline.report.terminal import print_document
from fuseline.units import format_bytes, format_time

State = Literal["good", "limited", "broken"]
MARKS: dict[State, str] = {"good": "✓", "limited": "–", "broken": "✗"}
OPTIONAL_FEATURES = ("accuracy", "charts", "planner")
C_PROGRAM = "#include <math.h>\ndouble twice(double x) { return 2.0 * sqrt(x * x); }\n"


@dataclass(frozen=True)
class Check:
    """One line: ``state`` is ``limited`` where fuseline works with less, ``broken`` where it does not work."""

    item: str
    found: str
    state: State = "good"
    advice: str = ""


def doctor(
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> int:
    """Check what fuseline finds on this machine, and say what to do where something is missing.

    The exit status is 1 where fuseline cannot work as it is.
    """
    language = resolve_language(lang)
    checks = list(examine(language))
    healthy = all(check.state != "broken" for check in checks)
    if as_json:
        facts = {"version": __version__, "healthy": healthy, "checks": [asdict(check) for check in checks]}
        print_json(facts)
    else:
        print_document(doctor_document(checks, healthy, language))
    return 0 if healthy else 1


def examine(language: str) -> Iterator[Check]:
    """Every check, in the order in which they are printed; texts are in ``language``. The cache stays as it is."""
    from fuseline.runtime import cache

    yield _python()
    yield _packages(language)
    yield _optional_packages(language)
    yield _processor(language)
    yield _threads(language)
    yield _settings(language)
    yield _devices(language)
    with cache.object_cache().on_trial():
        yield _cache(language)
        yield _kernel(language)
    yield _c_compiler(language)


def _python() -> Check:
    return Check("python", f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}")


def _packages(language: str) -> Check:
    requirements = _requirements()
    if requirements is None:
        return _without_metadata("packages", language)
    versions = {name: _version(name) for name, feature in requirements if feature is None}
    missing = [name for name, version in versions.items() if version is None]
    if not missing:
        return Check("packages", _listed(versions, language))
    advice = text("doctor.advice.packages_missing", language, names=", ".join(missing))
    return Check("packages", _listed(versions, language), "broken", advice)


def _optional_packages(language: str) -> Check:
    requirements = _requirements()
    if requirements is None:
        return _without_metadata("optional_packages", language)
    features = {name: feature for name, feature in requirements if feature in OPTIONAL_FEATURES}
    versions = {name: _version(name) for name in features}
    missing = [name for name, version in versions.items() if version is None]
    if not missing:
        return Check("optional_packages", _listed(versions, language))
    command = install_features(sorted({str(features[name]) for name in missing}))
    advice = text("doctor.advice.optional_packages_missing", language, names=", ".join(missing), command=command)
    return Check("optional_packages", _listed(versions, language), "limited", advice)


def _processor(language: str) -> Check:
    from fuseline.runtime import host

    processor = host.processor()
    targets = host.target_names()
    if not targets:
        return Check("processor", platform.machine(), "limited", text("doctor.advice.no_target", language))
    try:
        used = host.host_target().name
    except UnsupportedError as error:
        found = text("doctor.found.processor_unused", language, model=processor.model)
        return Check("processor", found, "broken", text("doctor.advice.setting_refused", language, problem=error))
    level = targets[-1] if used == "native" else used
    found = text("doctor.found.processor", language, model=processor.model, target=level)
    if used != "native":
        advice = text("doctor.advice.target_stated", language, target=used, best=targets[-1])
        return Check("processor", found, "good" if used == targets[-1] else "limited", advice)
    if level in ("x86-64", "x86-64-v2"):
        return Check("processor", found, "limited", text("doctor.advice.old_processor", language))
    return Check("processor", found)


def _threads(language: str) -> Check:
    from fuseline.runtime import control_groups, threads
    from fuseline.runtime.environment import stated_count

    counts = {"threads": threads.available(), "open": threads.affinity(), "count": os.cpu_count() or 1}
    found = text("doctor.found.threads", language, **counts)
    quota = control_groups.processors()
    if quota is not None:
        found += text("doctor.found.quota", language, quota=quota)
    for name in ("FUSELINE_NUM_THREADS", "OMP_NUM_THREADS"):
        if stated_count(name):
            advice = text("doctor.advice.threads_stated", language, name=name, value=os.environ[name])
            return Check("threads", found, advice=advice)
    return Check("threads", found)


LEAST_COUNTS = {
    "FUSELINE_NUM_THREADS": 1,
    "OMP_NUM_THREADS": 1,
    "FUSELINE_CACHE_BYTES": 0,
    "FUSELINE_RECYCLE_BYTES": 0,
}
"""Variables that state a count, and the smallest that counts."""


def _settings(language: str) -> Check:
    """The variables that are set, and those among them that state no count and so count as not set."""
    from fuseline.runtime.environment import stated_count

    stated = {
        name: printable(f"{name}={value}")
        for name, value in sorted(os.environ.items())
        if value and (name.startswith("FUSELINE_") or name in LEAST_COUNTS)
    }
    found = ", ".join(stated.values()) or text("doctor.found.nothing", language)
    ignored = []
    for name, least in LEAST_COUNTS.items():
        count = stated_count(name)
        if name in stated and (count is None or count < least):
            ignored.append(stated[name])
    if not ignored:
        return Check("settings", found)
    return Check("settings", found, "limited", text("doctor.advice.no_count", language, settings=", ".join(ignored)))


def _devices(language: str) -> Check:
    """Reads the machines that ship with fuseline and the user's own file, as every command on machines does."""
    from fuseline.machine.database import database, user_device_file

    try:
        known = len(database().devices)
    except (OSError, FuselineError) as error:
        found = text("doctor.found.unusable", language)
        return Check("devices", found, "broken", text("doctor.advice.setting_refused", language, problem=error))
    return Check("devices", text("doctor.found.devices", language, count=known, file=user_device_file()))


def _cache(language: str) -> Check:
    """Writes an entry and reads it again, as compiling and loading a kernel do."""
    from fuseline.runtime import cache

    store = cache.object_cache()
    if store.directory is None:
        advice = text("doctor.advice.cache_off", language)
        return Check("cache", text("doctor.found.cache_off", language), "limited", advice)
    size_bytes = store.size_bytes()
    content = b"fuseline doctor"
    name = cache.key("doctor")
    works = store.put(name, content) and store.get(name) == content
    size = format_bytes(size_bytes) if size_bytes else text("doctor.found.cache_empty", language)
    limit = format_bytes(store.limit_bytes)
    found = text("doctor.found.cache", language, directory=store.directory, size=size, limit=limit)
    if works:
        return Check("cache", found)
    return Check("cache", found, "limited", text("doctor.advice.cache_unusable", language, problem=store.last_problem))


def _kernel(language: str) -> Check:
    """Compiles a kernel, or takes it from the cache, and compares its results with NumPy's."""
    from fuseline.runtime import host

    try:
        import numpy as np

        import fuseline as fl

        x = np.linspace(-3, 3, 1001, dtype=np.float32)
        started = time.perf_counter()
        result = fl.compile("x*x - 1")(x)
    except UnsupportedError as error:
        # Where the processor has no target, all but kernels works; otherwise something keeps kernels from working.
        state: State = "broken" if host.target_names() else "limited"
        return Check("kernel", text("doctor.found.nothing", language), state, str(error))
    except (ImportError, OSError, FuselineError) as error:
        advice = text("doctor.advice.kernel_fails", language, command=pip_install("--force-reinstall llvmlite"))
        return Check("kernel", str(error), "broken", advice)
    if not np.array_equal(result, x * x - np.float32(1)):
        unusable = text("doctor.found.unusable", language)
        return Check("kernel", unusable, "broken", text("doctor.advice.kernel_wrong", language))
    return Check("kernel", text("doctor.found.kernel", language, time=format_time(time.perf_counter() - started, 2)))


def _c_compiler(language: str) -> Check:
    """Compiles and loads a function that needs the C library's headers, as measured rows do."""
    from fuseline.runtime.compiler import find_c_compiler

    try:
        compiler = find_c_compiler()
        if compiler is None:
            nothing = text("doctor.found.nothing", language)
            return Check("c_compiler", nothing, "limited", text("doctor.advice.no_c_compiler", language))
        compiler.compile(C_PROGRAM).address("twice")
    except CompilerError as error:
        command = os.environ.get("CC") or text("doctor.found.unusable", language)
        advice = text("doctor.advice.c_compiler_fails", language, problem=error)
        return Check("c_compiler", command, "limited", advice)
    return Check("c_compiler", compiler.version())


def _requirements() -> list[tuple[str, str | None]] | None:
    """The packages that this distribution declares, each with the optional feature that asks for it, if one does; None
    where fuseline is used without having been installed."""
    try:
        lines = importlib.metadata.requires("fuseline") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found: list[tuple[str, str | None]] = []
    for line in lines:
        name = re.match(r"[\w.-]+", line)
        feature = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if name:
            found.append((name.group(), feature.group(1) if feature else None))
    return found


def _without_metadata(item: str, language: str) -> Check:
    return Check(item, text("doctor.found.nothing", language), "limited", text("doctor.advice.no_metadata", language))


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _listed(versions: dict[str, str | None], language: str) -> str:
    present = [f"{name} {version}" for name, version in versions.items() if version is not None]
    return ", ".join(present) or text("doctor.found.nothing", language)


def doctor_document(checks: Sequence[Check], healthy: bool, language: str) -> Document:
    """The checks as a table, each advice under what it is about."""
    columns = (
        Column(""),
        Column(text("doctor.heading.item", language)),
        Column(text("doctor.heading.found", language), folding=True),
    )
    rows = []
    for check in checks:
        rows.append(Cells((MARKS[check.state], text(f"doctor.item.{check.item}", language), check.found)))
        if check.advice:
            rows.append(Cells(("", "", f"→ {check.advice}")))
    summary = Remarks((text("doctor.healthy" if healthy else "doctor.unhealthy", language),))
    title = text("doctor.title", language, version=__version__)
    return Document(title, (Section("", (Table(columns, tuple(rows)), summary)),), language)
