"""Build kbbench/ska-bench from the authors' files: python build.py <their folder> <out>."""

import sys
from pathlib import Path

from kbbench_hf.building.ska_bench.dataset import build_official

if __name__ == "__main__":
    build_official(Path(sys.argv[1]), Path(sys.argv[2]))
