"""Make instances from public sources, for build.py to read.

python make_instances.py tekgen <Text2KGBench/data/wikidata_tekgen> <out>
python make_instances.py hybridqa <HybridQA/released_data/dev.traced.json> <WikiTables-WithLinks> <out>
"""

import sys
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.construction import hybridqa, tekgen

MAKERS = {
    "tekgen": tekgen.make,
    "hybridqa": hybridqa.make,
}

if __name__ == "__main__":
    for name, count in MAKERS[sys.argv[1]](*map(Path, sys.argv[2:])).items():
        print(f"{name}.jsonl: {count:,} lines")
