"""Build kbbench/genres-corpora: python build.py OUT SOURCE, where SOURCE is your clone of the release."""

import sys
from pathlib import Path

from kbbench_hf.building.genres.release import build_genres_corpora

if __name__ == "__main__":
    out, *source = map(Path, sys.argv[1:])
    build_genres_corpora(source[0] if source else None, out)
