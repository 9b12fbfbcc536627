"""The house rules that a machine can check."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "kbbench_hf"
LEVELS = [
    {"errors"},
    {"registry"},
    {"protocols"},
    {"metrics"},
    {"knowledge_base"},
    {"dataset_folder"},
    {"benchmarks"},
    {"releases"},
    {"construction"},
    {"mini", "published"},
    {"json_lines"},
    {"records"},
    {"hub"},
    {"scoring"},
    {"comparison"},
    {"reports"},
    {"leaderboard"},
    {"models"},
    {"runners"},
    {"training"},
    {"app"},
    {"cli"},
]
HEIGHT = {name: height for height, names in enumerate(LEVELS) for name in names}
HUGGING_FACE = {
    "datasets",
    "evaluate",
    "huggingface_hub",
    "transformers",
    "accelerate",
    "sentence_transformers",
    "gradio",
}


def imports_of(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def room_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


FILES = sorted(file for file in PACKAGE.rglob("*.py") if file.parent != PACKAGE or file.name != "__init__.py")


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_run_downhill(file: Path) -> None:
    own = HEIGHT[room_of(file)]
    uphill = {
        name for name in imports_of(file) if name.startswith("kbbench_hf.") and HEIGHT.get(name.split(".")[1], -1) > own
    }
    assert not uphill, f"{file.name} imports uphill: {sorted(uphill)}"


@pytest.mark.parametrize("room", ["metrics", "knowledge_base"])
def test_the_mathematics_names_no_hugging_face_package(room: str) -> None:
    found = {name.split(".")[0] for file in (PACKAGE / room).rglob("*.py") for name in imports_of(file)}
    assert not found & HUGGING_FACE


def test_no_file_is_called_utils() -> None:
    assert not [file for file in FILES if file.stem in {"utils", "helpers", "common", "misc"}]


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, kbbench_hf; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "pyarrow", "torch"} & set(loaded) and not HUGGING_FACE & set(loaded)


def test_the_commands_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from kbbench_hf.cli import kbbench; "
        "kbbench.main(['--help'], standalone_mode=False); print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "pyarrow", "torch"} & set(loaded) and not HUGGING_FACE & set(loaded)
