"""Write `kbbench_hf/text/data/sentence_ends.json`: where Punkt ends a sentence inside a text of the release.

Only texts whose tokens that changes are kept, as hashes and offsets; the file holds no text. It needs `nltk==3.9.2` and
a folder of NLTK data with `punkt_tab`, such as the one inside the wheel of `llama-index-core`:

    pip download --no-deps llama-index-core && unzip llama_index_core-*.whl -d unpacked
    python tests/golden/make_sentence_ends.py RELEASE unpacked/llama_index/core/_static/nltk_cache
"""

import json
import sys
from collections.abc import Iterator
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from kbbench_hf.benchmarks.text2kgbench.benchmark import HISTORICAL_PARSERS
from kbbench_hf.text.tokens import tokenize

TABLE = Path(__file__).parents[2] / "kbbench_hf/text/data/sentence_ends.json"


def release_texts(release: Path) -> Iterator[str]:
    """Yield what the metric normalises: each sentence with its ontology's concepts, and each subject and object."""
    for dataset in ("wikidata_tekgen", "dbpedia_webnlg"):
        root = release / dataset
        for ontology in sorted((root / "ontologies").glob("*_ontology.json")):
            name = ontology.name.removesuffix("_ontology.json")
            labels = " ".join(each["label"] for each in json.loads(ontology.read_text(encoding="utf-8"))["concepts"])
            for file in sorted(root.rglob("*.jsonl")):
                if f"ont_{name}_" not in file.name and not file.name.startswith(f"{name}_"):
                    continue
                for line in file.read_text(encoding="utf-8").splitlines():
                    row = json.loads(line)
                    if "sent" in row:
                        yield row["sent"] + labels
                    yield from _entities(row)


def _entities(row: dict[str, object]) -> Iterator[str]:
    for each in row.get("triples") or []:
        yield from (each["sub"], each["obj"]) if isinstance(each, dict) else (each[0], each[2])
    yield from (row[key] for key in ("sub_label", "obj_label") if key in row)
    if "response" in row:
        for parse in HISTORICAL_PARSERS.values():
            for subject, _, obj in parse(row["response"]):
                yield from (subject, obj)


def sentence_ends(texts: Iterator[str], nltk_data: Path) -> dict[str, list[int]]:
    """Return sha256 of each text that Punkt cuts (stripped on the right) -> the ends of all sentences but the last."""
    import nltk
    from nltk.tokenize import PunktTokenizer

    nltk.data.path[:] = [str(nltk_data)]
    punkt = PunktTokenizer("english")
    table = {}
    for text in sorted({text.rstrip() for text in texts}):
        spans = list(punkt.span_tokenize(text))
        if len(spans) > 1:
            table[sha256(text.encode("utf-8", "surrogatepass")).hexdigest()] = [end for _, end in spans[:-1]]
    return dict(sorted(table.items()))


def changes_tokens(text: str, ends: list[int]) -> bool:
    """Return whether cutting a text at these places changes its tokens."""
    cuts = pairwise([0, *ends, len(text)])
    return [token for start, end in cuts for token in tokenize(text[start:end])] != tokenize(text)


if __name__ == "__main__":
    TABLE.write_text("{}\n", encoding="ascii")  # so that `tokenize` cuts nothing yet
    texts = {text.rstrip() for text in release_texts(Path(sys.argv[1]))}
    by_hash = {sha256(text.encode("utf-8", "surrogatepass")).hexdigest(): text for text in texts}
    found = sentence_ends(iter(texts), Path(sys.argv[2]))
    ends = {key: cuts for key, cuts in found.items() if changes_tokens(by_hash[key], cuts)}
    TABLE.write_text("{\n" + ",\n".join(f'"{key}": {value}' for key, value in ends.items()) + "\n}\n", encoding="ascii")
    print(f"{len(ends)} of {len(found)} texts")
