"""Build kbbench/text2kg-wikidata-tekgen: python build.py OUT [SOURCE] (SOURCE: the release)."""

import sys
from pathlib import Path

from kbbench_hf.building.text2kgbench.release import build_wikidata_tekgen

if __name__ == "__main__":
    out, *source = map(Path, sys.argv[1:])
    build_wikidata_tekgen(source[0] if source else None, out)
