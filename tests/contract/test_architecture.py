"""Architecture rules over one parse of the package: import order, cycles, benchmark names, POSIX, file writers.

A package may import its own modules and those of packages earlier in `ORDER`.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "kbbench_hf"
ORDER = (
    "moved errors addresses protocols text metrics parsing files knowledge_base hub benchmarks scoring reports "
    "model_specs llm retrieval judges agents runners training leaderboard building app cli"
).split()
"""Packages and top-level modules, lowest first. `kbbench_hf/__init__.py` is the public interface: it imports any of
them, and none of them imports it."""
BUILDERS = {"building", "cli"}
"""Who imports `building`, which makes datasets."""
NAMED_IN_STRINGS = {"benchmarks": "kbbench_hf.building", "knowledge_base": "kbbench_hf.benchmarks"}
"""Packages and the later one that they name in a string, imported on request: a benchmark names its builder, and the
knowledge base what finds a dataset by its name."""
OWN_DATA = frozenset({"own_data", "own_kb", "own_extraction"})
"""Benchmarks of a user's own data: they use the prompts and scores of a released benchmark."""
HUGGING_FACE = set("datasets evaluate huggingface_hub transformers accelerate sentence_transformers gradio".split())
HEAVY = {"numpy", "pyarrow", "torch", "pandas"} | HUGGING_FACE
POSIX = {"fcntl", "pwd", "grp", "resource", "termios"}
ADDRESS = re.compile(r"(kbbench_hf(?:\.\w+)+)\.?(?::\w*)?")
"""A string that names a module: `a.b.c`, `a.b.c:VALUE` or `a.b.c.`."""
BENCHMARK = re.compile(r"stark|text2kg|\bska\b|ska[-_]|genres", re.IGNORECASE)
EXAMPLE = re.compile(r"mini-\w+|genres-corpora/docred")
"""Datasets that every installation has; examples may name them."""
SOURCE = re.compile(r"Source: |commit [0-9a-f]{7}")
"""A line that cites its source may name a benchmark."""


@dataclass(frozen=True)
class SourceFile:
    """A module of the package, read and parsed once."""

    name: str
    """Path in the package: `benchmarks/base.py`."""
    text: str

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(ast.parse(self.text, self.name)))

    @cached_property
    def module(self) -> str:
        return f"kbbench_hf.{self.name.removesuffix('.py').replace('/', '.')}".removesuffix(".__init__")

    @cached_property
    def package(self) -> str:
        """The entry of `ORDER` that the module belongs to."""
        return self.name.split("/")[0].removesuffix(".py")

    @cached_property
    def folder(self) -> str:
        """The benchmark to which the file belongs, or an empty string."""
        package, _, rest = self.name.removesuffix(".py").partition("/")
        folder = rest.split("/")[0]
        return folder if package in {"benchmarks", "building"} and folder in benchmark_folders() else ""

    @cached_property
    def strings(self) -> list[str]:
        """The string constants, without docstrings."""
        docstrings = {id(node.value) for node in self.nodes if isinstance(node, ast.Expr)}
        constants = (node for node in self.nodes if isinstance(node, ast.Constant) and id(node) not in docstrings)
        return [node.value for node in constants if isinstance(node.value, str)]

    @cached_property
    def imports(self) -> set[str]:
        """The modules of import statements and of strings, without those of `NAMED_IN_STRINGS`."""
        found: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                submodules = names & modules()
                found |= submodules if submodules == names else submodules | {node.module}
        named = {match[1] for text in self.strings if (match := ADDRESS.fullmatch(text))}
        later = NAMED_IN_STRINGS.get(self.package, "-")
        return found | {name for name in named if not f"{name}.".startswith(f"{later}.")}

    @cached_property
    def own_imports(self) -> set[str]:
        """The package's modules among `imports`; `a.b.c.function` is in module `a.b.c`."""
        found = set()
        for name in self.imports:
            while name.startswith("kbbench_hf.") and name not in modules():
                name = name.rpartition(".")[0]
            if name.startswith("kbbench_hf."):
                found.add(name)
        return found - {self.module}


@cache
def sources() -> dict[str, SourceFile]:
    """Return the modules of the package by name; each file is parsed once in a process."""
    names = [file.relative_to(PACKAGE).as_posix() for file in sorted(PACKAGE.rglob("*.py"))]
    return {name: SourceFile(name, (PACKAGE / name).read_text(encoding="utf-8")) for name in names}


@cache
def modules() -> frozenset[str]:
    return frozenset(source.module for source in sources().values())


@cache
def benchmark_folders() -> frozenset[str]:
    return frozenset(file.parent.name for file in (PACKAGE / "benchmarks").glob("*/benchmark.py")) | OWN_DATA


def order_violations(source: SourceFile) -> Iterator[str]:
    """Yield the imports of a module that the order of the packages forbids."""
    if source.module == "kbbench_hf":
        return
    if source.package not in ORDER:
        yield f"{source.name}: {source.package} is not in ORDER"
        return
    if "kbbench_hf" in source.imports:
        yield f"{source.name} imports kbbench_hf, the public interface: import the module that defines the name"
    for module in sorted(source.own_imports):
        package = module.split(".")[1]
        if ORDER.index(package) > ORDER.index(source.package):
            yield f"{source.name} imports {module}, of a package later in ORDER"
        if package == "building" and source.package not in BUILDERS:
            yield f"{source.name} imports {module}; only {' and '.join(sorted(BUILDERS))} import building"
    if source.package in {"metrics", "knowledge_base"} and (named := _top_level(source) & HUGGING_FACE):
        yield f"{source.name} imports {sorted(named)}; metrics and knowledge_base use no Hugging Face package"


def benchmark_violations(source: SourceFile) -> Iterator[str]:
    """Yield where a benchmark imports another one, and where generic code names a benchmark."""
    if source.folder:
        for module in () if source.folder in OWN_DATA else sorted(source.own_imports):
            package, _, folder = ".".join(module.split(".")[1:3]).partition(".")
            if package in {"benchmarks", "building"} and folder in benchmark_folders() - {source.folder}:
                yield f"{source.name} imports {module}, of another benchmark"
        return
    if source.package in {"metrics", "text"}:  # name the papers that define its scores
        return
    for number, line in enumerate(source.text.splitlines(), start=1):
        registered = source.name == "benchmarks/__init__.py" and ":" in line and line.startswith('    "')
        shown = source.name == "app/boards.py" and line.strip() == "'Text2KGBench, mini · test'"
        if not (registered or shown or SOURCE.search(line)) and BENCHMARK.search(EXAMPLE.sub("", line)):
            yield f"{source.name}:{number} names a benchmark: {line.strip()}"


def file_violations(source: SourceFile) -> Iterator[str]:
    """Yield a module name without meaning, a second writer of files and a module that needs POSIX."""
    if Path(source.name).stem in {"utils", "helpers", "common", "misc"}:
        yield f"{source.name}: name a module after what it contains"
    if ("fsync" in source.text) != (source.name in {"files/writing.py", "files/journal.py"}):
        yield f"{source.name}: files/writing.py and files/journal.py call fsync, and no other module"
    needed = _top_level(source) & POSIX
    if source.name == "leaderboard/checking.py":  # without POSIX, uploads are checked in threads
        needed ^= {"resource"}
    if needed and source.package != "building":
        yield f"{source.name}: {sorted(needed)} needs POSIX; release readers and leaderboard/checking.py may use it"


def _top_level(source: SourceFile) -> set[str]:
    return {name.split(".")[0] for name in source.imports}


def import_cycle() -> list[str]:
    """Return the modules of an import cycle, or an empty list."""
    imports = {source.module: source.own_imports for source in sources().values() if source.name != "__init__.py"}
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        for imported in () if module in done else sorted(imports.get(module, ())):
            if cycle := visit(imported, [*path, module]):
                return cycle
        done.add(module)
        return []

    return next(filter(None, (visit(module, []) for module in sorted(imports))), [])


def test_a_class_name_means_one_thing() -> None:
    found: dict[str, list[str]] = {}
    for source in sources().values():
        for node in source.nodes:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(source.name)
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


def test_the_package_keeps_its_architecture() -> None:
    rules = (order_violations, benchmark_violations, file_violations)
    found = [each for source in sources().values() for rule in rules for each in rule(source)]
    if cycle := import_cycle():
        found.append(f"import cycle: {' -> '.join(cycle)}")
    assert not found, "\n".join(found)


def test_scripts_outside_the_package_import_names_that_exist() -> None:
    folders = ("benchmarks_speed", "dataset_scripts", "examples", "metrics", "spaces")
    by_module, found = {source.module: source for source in sources().values()}, []
    for file in (file for folder in folders for file in sorted((PACKAGE.parent / folder).rglob("*.py"))):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            source = by_module.get(getattr(node, "module", None) or "") if isinstance(node, ast.ImportFrom) else None
            if source is None or source.module == "kbbench_hf":  # the public interface is lazy
                continue
            missing = {alias.name for alias in node.names} - defined_names(source)
            found += [f"{file.relative_to(PACKAGE.parent)}: {source.module} has no {name}" for name in sorted(missing)]
    assert not found, "\n".join(found)


def defined_names(source: SourceFile) -> set[str]:
    """Return the names that a module defines, imports or has as submodules."""
    found = {module.rpartition(".")[2] for module in modules() if module.rpartition(".")[0] == source.module}
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def test_importing_the_package_and_the_help_import_nothing_heavy() -> None:
    steps = (
        "import kbbench_hf",
        "dir(kbbench_hf)",
        "from kbbench_hf.cli.verbs import kbbench; kbbench.main(['--help'], standalone_mode=False)",
    )
    code = "\n".join(f"{step}\nprint('loaded', *sys.modules)" for step in ("import sys", *steps))
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = [set(line.split()) for line in printed.splitlines() if line.startswith("loaded ")]
    assert [sorted(HEAVY & each) for each in loaded] == [[]] * 4, steps
