"""Build kbbench/ska-open from raw files: python build.py <their folder> <out>."""

import sys
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.construction.datasets import build_open

if __name__ == "__main__":
    build_open(Path(sys.argv[1]), Path(sys.argv[2]))
