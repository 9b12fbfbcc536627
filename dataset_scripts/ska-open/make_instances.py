"""Make instances from public sources, for build.py to read.

python make_instances.py tekgen <Text2KGBench/data/wikidata_tekgen> <out>
python make_instances.py wikitablequestions <WikiTableQuestions> <out>
python make_instances.py hybridqa <HybridQA/released_data/dev.traced.json> <WikiTables-WithLinks> <out>
"""

import sys
from pathlib import Path

from kbbench_hf.construction import ska_from_hybridqa, ska_from_tekgen, ska_from_wikitablequestions

MAKERS = {
    "tekgen": ska_from_tekgen.make,
    "wikitablequestions": ska_from_wikitablequestions.make,
    "hybridqa": ska_from_hybridqa.make,
}

if __name__ == "__main__":
    for name, count in MAKERS[sys.argv[1]](*map(Path, sys.argv[2:])).items():
        print(f"{name}.jsonl: {count:,} lines")
