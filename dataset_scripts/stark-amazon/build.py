"""Build kbbench/stark-amazon: python build.py OUT [SOURCE], where SOURCE is the release; downloaded where not given."""

import sys
from pathlib import Path

from kbbench_hf.building.stark.release import build_amazon

if __name__ == "__main__":
    out, *source = map(Path, sys.argv[1:])
    build_amazon(source[0] if source else None, out)
