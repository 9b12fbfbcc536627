"""Build kbbench/ska-open: python build.py OUT [FOLDER], from its sources' public files or a folder of raw files."""

import sys
from pathlib import Path

from kbbench_hf.building.ska_bench.dataset import build_open

if __name__ == "__main__":
    out, *source = map(Path, sys.argv[1:])
    build_open(source[0] if source else None, out)
