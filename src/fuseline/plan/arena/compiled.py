"""Hot loops compiled by numba where it is installed, kept on disk, and used from there only if they are intact.

Compiling takes some ten seconds and cannot be interrupted, so it happens in another process, which may be waited for
or ended at any moment. It seals what it leaves on disk with checksums; without a seal that fits, it is compiled anew.
Of all processes that share the folder one compiles at a time; the others wait for what it makes, or do without.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, ClassVar

from fuseline.errors import PlanError
from fuseline.folders import cache_folder, caching_allowed, exclusive, is_private


@cache
def numba_available() -> bool:
    """Whether the optional dependency numba can be imported."""
    return importlib.util.find_spec("numba") is not None


def compiling_allowed() -> bool:
    """Whether numba is there and may keep what it compiles (``FUSELINE_CACHE=off`` forbids it)."""
    return numba_available() and caching_allowed()


@dataclass(frozen=True)
class Loops:
    """The functions of some modules that are called from outside, and how they come to be compiled. The last module
    calls the others.

    A pair in ``instead`` names a function and the one that stands for it in compiled code. ``exercise`` is a statement
    that calls every entry once; another process runs it.
    """

    modules: tuple[ModuleType, ...]
    entries: tuple[str, ...]
    exercise: str
    instead: tuple[tuple[str, str], ...] = ()

    @cached_property
    def functions(self) -> SimpleNamespace:
        """The entries, each loaded from disk at its first call (or compiled, where it does not lie there).

        Raises:
            PlanError: there is no folder for compiled code.
        """
        return self.compiled_in(self.folder)

    def compiled_in(self, folder: Path) -> SimpleNamespace:
        """Copies of the functions that numba compiles at their first call and keeps in ``folder``."""
        import numba

        namespace = {name: value for module in self.modules for name, value in vars(module).items()}
        of = {module.__name__ for module in self.modules}
        njit: Any = numba.njit
        config: Any = numba.config
        usual, config.CACHE_DIR = config.CACHE_DIR, str(folder)
        try:
            given = dict(namespace)
            for name in given:
                function = given[dict(self.instead).get(name, name)]
                if isinstance(function, FunctionType) and function.__module__ in of:
                    copy = FunctionType(function.__code__, namespace, name)
                    copy.__module__ = function.__module__
                    entry = name in self.entries
                    # Without the wrappers that calls from Python need, inner functions compile in half the time.
                    options: dict[str, Any] = {"cache": entry, "no_cpython_wrapper": not entry}
                    namespace[name] = njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)(copy)
        except (RuntimeError, OSError) as error:
            raise PlanError(f"compiled code cannot be kept in {folder}: {error}") from error
        finally:
            config.CACHE_DIR = usual
        return SimpleNamespace(**{name: namespace[name] for name in self.entries})

    @property
    def loaded(self) -> bool:
        """Whether the compiled code has run in this process, so that using it costs nothing more."""
        return "functions" in vars(self) and all(f.signatures for f in vars(self.functions).values())

    def ready(self) -> bool:
        """Whether it can be used at once: compiled code of these very functions lies on disk, every byte as it was
        sealed. What was damaged is removed.
        """
        if not compiling_allowed() or not self._is_private():
            return False
        try:
            sealed = json.loads((self.folder / _SEAL).read_text(encoding="utf-8"))
            intact = bool(sealed) and sealed == _digests(self.folder)
        except FileNotFoundError:
            return False
        except (OSError, ValueError):
            intact = False
        if not intact:
            shutil.rmtree(self.folder, ignore_errors=True)
            return False
        try:
            return bool(vars(self.functions))
        except PlanError:
            return False

    def _is_private(self) -> bool:
        """Whether nobody else may have written what lies there: numba's files are pickles, which can do anything."""
        if not self.folder.is_dir():
            return False
        parts = (self.folder.parent, self.folder, *self.folder.rglob("*"))
        return all(is_private(os.lstat(part)) and not part.is_symlink() for part in parts)

    def compile_and_seal(self, use: Callable[[], object]) -> None:
        """Compile the functions that ``use`` calls, at low priority, and seal them on disk: whole, or not at all.

        Nothing is done where they lie there already, while another process compiles, or in a folder that is not
        private. Where compiling fails, a note
        beside the folder says why, and for a day nobody tries again.
        """
        os.makedirs(self.folder.parent, mode=0o700, exist_ok=True)
        if not is_private(os.lstat(self.folder.parent)):
            return  # somebody else may put there what numba would read: what is made could never be used
        with exclusive(self._lock) as alone:
            if not alone or self.ready():
                return
            if hasattr(os, "nice"):
                os.nice(5)
            for left in self.folder.parent.glob(f"{_BUILDING}*"):  # by processes that were killed: nobody else builds
                shutil.rmtree(left, ignore_errors=True)
            before = os.umask(0o077)  # else what is made may be written to by a group, and is not trusted
            try:
                self._compile_and_seal(use)
            except Exception:
                self._note.write_text(traceback.format_exc(), encoding="utf-8")
                raise
            finally:
                os.umask(before)
            self._note.unlink(missing_ok=True)

    @property
    def compiled_elsewhere(self) -> bool:
        """Whether another process compiles now, these functions or others that are kept beside them."""
        try:
            with exclusive(self._lock) as alone:
                return not alone
        except OSError:  # there is no folder yet, or none can be made
            return False

    @property
    def _lock(self) -> Path:
        return self.folder.with_name(".lock")

    @property
    def failed_lately(self) -> bool:
        """Whether compiling these very functions failed within the last day."""
        try:
            return time.time() - self._note.stat().st_mtime < _NOTE_S
        except OSError:
            return False

    @property
    def _note(self) -> Path:
        return self.folder.with_suffix(".failed")

    def _compile_and_seal(self, use: Callable[[], object]) -> None:
        with tempfile.TemporaryDirectory(prefix=_BUILDING, dir=self.folder.parent) as name:
            made = Path(name) / "made"
            vars(self)["functions"] = self.compiled_in(made)
            use()
            (made / _SEAL).write_text(json.dumps(_digests(made)), encoding="utf-8")
            shutil.rmtree(self.folder, ignore_errors=True)  # nobody can use it, or this would not have been made
            os.rename(made, self.folder)

    @cached_property
    def folder(self) -> Path:
        """Where compiled code of this source lies, for this compiler, interpreter and processor."""
        source = b"".join(map(_source, self.modules))
        versions = [importlib.metadata.version(name) for name in ("numba", "llvmlite", "numpy")]
        made_for = [*versions, platform.python_version(), platform.machine(), platform.processor()]
        digest = hashlib.sha256(source + " ".join(made_for).encode()).hexdigest()[:16]
        return cache_folder() / "planner" / f"{self.modules[-1].__name__.rpartition('.')[2]}-{digest}"


_SEAL = "seal.json"
_BUILDING = ".building-"
_NOTE_S = 86_400.0
"""How long a failed compilation is remembered: a day."""
_COMPILE_S, _LOAD_S = 8.0, 1.5
"""The least time left for which compiling is begun, and compiled code is loaded."""


def _source(module: ModuleType) -> bytes:
    """What the module was read from, which may lie in an archive."""
    loader: Any = module.__loader__
    source: bytes = loader.get_data(module.__file__)
    return source


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != _SEAL)
    return {path.relative_to(folder).as_posix(): _digest(path) for path in files}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Building:
    """A compilation in another process, which goes on after this one unless it is ended.

    While one that somebody else began goes on, it stands for that.
    """

    _begun: ClassVar[dict[Loops, Building]] = {}

    def __init__(self, loops: Loops) -> None:
        self._loops = loops
        self._process: subprocess.Popen[bytes] | None = None
        if loops.compiled_elsewhere:
            return
        quiet = subprocess.DEVNULL
        # The modules are to be those of this process. Without -P a file numba.py or json.py in the working directory
        # would run in their place: that folder stands first where a program is given by -c.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", loops.exercise], stdin=quiet, stdout=quiet, stderr=quiet, env=environment
        )

    @classmethod
    def of(cls, loops: Loops) -> Building:
        """The compilation of these loops that this process has begun, or one that goes on elsewhere, or a new one."""
        begun = cls._begun.get(loops)
        if begun is None:
            begun = cls(loops)
            if begun._process is not None:
                cls._begun[loops] = begun
        return begun

    @property
    def running(self) -> bool:
        """Whether it still goes on."""
        return self._loops.compiled_elsewhere if self._process is None else self._process.poll() is None

    def end(self) -> None:
        """Stop it if this process began it and it still runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class Compiling:
    """Which loops one planning may use compiled, asked ever again: those on disk are loaded, others made meanwhile.

    ``left_s`` says how many seconds are left; ``meanwhile`` is called once where another process begins to compile.
    """

    def __init__(self, allowed: bool, left_s: Callable[[], float], meanwhile: Callable[[], None]) -> None:
        self.allowed = allowed and compiling_allowed()
        self._left_s = left_s
        self._meanwhile = meanwhile
        self._usable: dict[Loops, bool] = {}
        self._building: Building | None = None

    def may_use(self, loops: Loops) -> bool:
        """Whether these loops can be used compiled now."""
        if not self.allowed:
            return False
        if loops not in self._usable:
            building = self._building
            if building is not None and building.running:
                return False
            usable = loops.loaded or (self._left_s() >= _LOAD_S and loops.ready())
            if not usable and building is None and self._left_s() >= _COMPILE_S and not loops.failed_lately:
                self._building = Building.of(loops)
                self._meanwhile()
                return False
            self._usable[loops] = usable
        return self._usable[loops]

    def end(self) -> None:
        """Stop what is being compiled."""
        if self._building is not None:
            self._building.end()
