"""mini-stark: its script makes the shipped files again, byte for byte."""

import subprocess
import sys
from pathlib import Path

from kbbench_hf.benchmarks import shipped_dataset

SCRIPT = Path(__file__).resolve().parents[4] / "dataset_scripts" / "mini-stark"


def test_the_script_builds_the_shipped_dataset_with_its_card(tmp_path: Path) -> None:
    code = "import sys, pathlib, build; build.main(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "mini")], cwd=SCRIPT, check=True, timeout=120)
    shipped = shipped_dataset("mini-stark")
    assert shipped
    built = {file.relative_to(tmp_path / "mini"): file for file in (tmp_path / "mini").rglob("*.*") if file.is_file()}
    assert {Path("README.md"), Path("manifest.json"), Path("data/queries/test.parquet")} <= built.keys()
    for name, file in built.items():
        assert file.read_bytes() == (shipped.path / name).read_bytes(), name
