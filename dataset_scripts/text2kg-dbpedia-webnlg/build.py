"""Build kbbench/text2kg-dbpedia-webnlg: python build.py OUT [SOURCE] (SOURCE: the release)."""

import sys
from pathlib import Path

from kbbench_hf.building.text2kgbench.release import build_dbpedia_webnlg

if __name__ == "__main__":
    out, *source = map(Path, sys.argv[1:])
    build_dbpedia_webnlg(source[0] if source else None, out)
