"""Templates found again on invented knowledge bases of the release's sizes: of how many questions, and how many wrong.

A question names the topics of the template that it was made from, word for word, and two nodes more; it has some of the
template's answers. What the release's questions name, models put in other words more often. Takes a minute and a half,
and 4 GB for MAG. Exits 1 where a template is wrong.

    python -m tests.endurance.recovered_templates [--only prime,mag]
"""

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

from kbbench_hf.benchmarks.stark.benchmark import METAPATHS
from kbbench_hf.building.stark.release import recovered_templates
from kbbench_hf.building.synthesis.instances import TopicDraws
from kbbench_hf.knowledge_base.metapaths import Metapath
from kbbench_hf.knowledge_base.store import KnowledgeBase

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks_speed"))
from knowledge_base_data import Synthetic, mag, prime

SIZES = {"prime": (prime, 600, 4), "mag": (mag, 300, 8)}
"""Name -> what invents it, the number of questions, the most words of a name but for its number."""
N_SEEN = (1, 1, 1, 2, 3, 10)
"""How many of the template's answers a question has, if there are so many."""


def invented(data: Synthetic, most_words: int, rng: random.Random) -> KnowledgeBase:
    """Return the knowledge base with a name for each node, and no texts."""
    n, words = len(data.type_ids), [f"w{i}" for i in range(3_000)]
    names = [f"{' '.join(rng.choices(words, k=rng.randint(1, most_words)))} {i}" for i in range(n)]
    kinds = pa.DictionaryArray.from_arrays(data.type_ids.astype(np.int32), data.node_types)
    relation = pa.DictionaryArray.from_arrays(data.relation_ids.astype(np.int32), data.relations)
    nodes = pa.table({"id": np.arange(n), "type": kinds, "name": names, "text": [""] * n})
    edges = pa.table({"head": data.heads.astype(np.int64), "relation": relation, "tail": data.tails.astype(np.int64)})
    return KnowledgeBase.from_arrow(nodes, edges)


def main() -> int:
    """Print what was found for each knowledge base; return 1 if a template is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SIZES))
    wrong = 0
    for name in parser.parse_args().only.split(","):
        make, n_questions, most_words = SIZES[name]
        rng = random.Random(0)
        kb = invented(make(1.0), most_words, rng)
        draws, templates = TopicDraws(kb), list(METAPATHS[name].values())
        made: list[str] = []
        asked: list[tuple[str, list[int]]] = []
        while len(asked) < n_questions:
            template = rng.choice(templates)
            drawn = draws.draw(Metapath.parse(template), rng)
            if drawn and 0 < len(drawn[1]) <= 500:
                topics, answers = drawn
                named = [*topics, rng.randrange(len(kb)), rng.randrange(len(kb))]
                seen = rng.sample(answers, min(len(answers), rng.choice(N_SEEN)))
                made.append(template)
                asked.append((f"which of these {' and that of '.join(kb.names(named))}", kb.ids(seen)))
        started = time.process_time()
        pairs = zip(recovered_templates(kb, templates, asked), made, strict=True)
        found = Counter("open" if one is None else "right" if one == of else "wrong" for one, of in pairs)
        print(f"{name}: {dict(found)} of {n_questions}, {time.process_time() - started:.0f} s", flush=True)
        wrong += found["wrong"]
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
