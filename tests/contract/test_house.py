"""The house rules that a machine can check: which way imports run, and who may name a benchmark."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "kbbench_hf"
ROOMS = (
    *(
        "errors",
        "addresses",
        "patterns",
        "files",
        "protocols",
        "replies",
        "metrics",
        "knowledge_base",
        "hub",
        "benchmarks",
        "scoring",
    ),
    *("reports", "leaderboard", "models", "runners", "training", "mcp_server", "app", "cli"),
)
"""Lowest first; a module imports from its own room or a lower one."""
HUGGING_FACE = {
    "datasets",
    "evaluate",
    "huggingface_hub",
    "transformers",
    "accelerate",
    "sentence_transformers",
    "gradio",
}
FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {file.relative_to(PACKAGE.parent).with_suffix("").as_posix().replace("/", ".") for file in FILES}
ADDRESS = re.compile(r"(kbbench_hf(?:\.\w+)+)\.?(?::\w*)?")
BENCHMARK = re.compile(r"stark|text2kg|\bska\b|ska[-_]|genres", re.IGNORECASE)
EXAMPLE = re.compile(r"mini-\w+|genres-corpora/docred")
"""Datasets that every installation has, and may stand in examples."""
SOURCE = re.compile(r"Source: |commit [0-9a-f]{7}")
"""Where something comes from may always be said."""
FOLDERS = {file.parent.name for file in (PACKAGE / "benchmarks").glob("*/benchmark.py")}


def module_of(file: Path) -> str:
    name = file.relative_to(PACKAGE.parent).with_suffix("").as_posix().replace("/", ".")
    return name.removesuffix(".__init__")


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imported_by(file: Path) -> set[str]:
    """Return the modules that a file imports, by statement or by an address in a string."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names} & MODULES
            found |= submodules if len(submodules) == len(node.names) else submodules | {node.module}
    return found | {match[1] for text, _ in strings_of(file) if (match := ADDRESS.fullmatch(text))}


def strings_of(file: Path) -> Iterator[tuple[str, int]]:
    """Yield the strings of a file that are no docstrings, each with its line."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value, node.lineno


def own_modules(file: Path) -> set[str]:
    """Return the package's modules that a file imports; `a.b.c:VALUE` and `a.b.c.function` are in module `a.b.c`."""
    found = set()
    for name in imported_by(file):
        while name.startswith("kbbench_hf.") and name not in MODULES and f"{name}.__init__" not in MODULES:
            name = name.rpartition(".")[0]
        if name.startswith("kbbench_hf."):
            found.add(name)
    return found - {module_of(file)}


def test_every_room_is_known() -> None:
    assert {room_of(module) for module in MODULES} - {"__init__"} == {*ROOMS}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_run_downhill(file: Path) -> None:
    if file == PACKAGE / "__init__.py":
        return  # the door: it may show every room, and no room imports it
    own = ROOMS.index(room_of(module_of(file)))
    found = own_modules(file)
    uphill = {module for module in found if ROOMS.index(room_of(module)) > own}
    assert not uphill, f"{file.name} imports uphill: {sorted(uphill)}"
    assert "kbbench_hf" not in imported_by(file), f"{file.name} imports the door"


def test_no_module_imports_itself_in_a_circle() -> None:
    arrows = {module_of(file): own_modules(file) for file in FILES if file != PACKAGE / "__init__.py"}
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> None:
        assert module not in path, f"a circle: {' -> '.join([*path[path.index(module) :], module])}"
        if module not in done:
            for below in sorted(arrows.get(module, ())):
                visit(below, [*path, module])
            done.add(module)

    for module in sorted(arrows):
        visit(module, [])


def generic(file: Path) -> bool:
    """Whether a file is of all benchmarks: not of one's folder, and not mathematics, which cites whose it is."""
    parts = file.relative_to(PACKAGE).parts
    return parts[0] != "metrics" and not (parts[0] == "benchmarks" and parts[1] in FOLDERS)


@pytest.mark.parametrize("file", [*filter(generic, FILES)], ids=lambda file: str(file.relative_to(PACKAGE)))
def test_generic_code_names_no_benchmark(file: Path) -> None:
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        registered = file == PACKAGE / "benchmarks" / "__init__.py" and ":" in line and line.startswith('    "')
        shown = file == PACKAGE / "app" / "boards.py" and line.strip() == "'Text2KGBench, mini · test'"
        if not (registered or shown or SOURCE.search(line)) and BENCHMARK.search(EXAMPLE.sub("", line)):
            found.append(f"{number}: {line.strip()}")
    assert not found, found


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_no_benchmark_imports_another(folder: str) -> None:
    if folder.startswith("own_"):
        return  # what a user brings is written, asked and scored in a benchmark's form
    others = tuple(f"kbbench_hf.benchmarks.{name}" for name in FOLDERS - {folder})
    for file in (PACKAGE / "benchmarks" / folder).rglob("*.py"):
        assert not [module for module in own_modules(file) if module.startswith(others)], file


@pytest.mark.parametrize("room", ["metrics", "knowledge_base"])
def test_the_mathematics_names_no_hugging_face_package(room: str) -> None:
    found = {name.split(".")[0] for file in (PACKAGE / room).rglob("*.py") for name in imported_by(file)}
    assert not found & HUGGING_FACE


def test_no_file_is_called_utils() -> None:
    assert not [file for file in FILES if file.stem in {"utils", "helpers", "common", "misc"}]


def test_files_are_written_whole_in_one_place_only() -> None:
    writers = {str(file.relative_to(PACKAGE)) for file in FILES if re.search(r"\bfsync\b", file.read_text("utf-8"))}
    assert writers == {"files/writing.py", "files/journal.py"}


def test_nothing_but_building_a_release_and_bounding_strangers_uploads_needs_posix() -> None:
    posix = {"fcntl", "pwd", "grp", "resource", "termios"}
    bounds = "leaderboard/checking.py"  # where there is no POSIX, uploads are checked in threads
    found = {str(file.relative_to(PACKAGE)): imported_by(file) & posix for file in FILES if "release" not in file.parts}
    assert {name: modules for name, modules in found.items() if modules} == {bounds: {"resource"}}


@pytest.mark.parametrize("code", ["import kbbench_hf", "import kbbench_hf; dir(kbbench_hf)"])
def test_importing_the_package_imports_nothing_heavy(code: str) -> None:
    assert not heavy(code)


def test_the_commands_help_imports_nothing_heavy() -> None:
    assert not heavy("from kbbench_hf.cli.verbs import kbbench; kbbench.main(['--help'], standalone_mode=False)")


def heavy(code: str) -> set[str]:
    """Return the heavy packages that are imported when this runs in a fresh process."""
    whole = f"import sys; {code}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=True).stdout.split()
    return ({"numpy", "pyarrow", "torch", "pandas"} | HUGGING_FACE) & set(loaded)
