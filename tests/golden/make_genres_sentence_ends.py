"""Write `kbbench_hf/text/data/sentence_ends_genres.json`: where Punkt's cuts change GenRES's token counts.

As `make_sentence_ends.py`, for the strings of GenRES's release: every element of every stored triple, every source text
and every text of CDR's topic-model corpus. Only texts whose tokens the cuts change are kept (108 of 1,114).

    python tests/golden/make_genres_sentence_ends.py RELEASE unpacked/llama_index/core/_static/nltk_cache
"""

import json
import sys
from collections.abc import Iterator
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from make_sentence_ends import sentence_ends

from kbbench_hf.text.tokens import tokenize

TABLE = Path(__file__).parents[2] / "kbbench_hf/text/data/sentence_ends_genres.json"


def release_texts(release: Path) -> Iterator[str]:
    """Yield what GenRES's metrics tokenise, from the folder of the release's parts."""
    for file in sorted((release / "inputs").glob("*_processed.json")):
        yield from json.loads(file.read_text(encoding="utf-8"))
    for file in sorted((release / "corpora").glob("*_filter.data")):
        yield from (line.split("\t")[1] for line in file.read_text(encoding="utf-8").splitlines())
    for file in sorted((release / "outputs").glob("*.json")):
        for triples in json.loads(file.read_text(encoding="utf-8")).values():
            yield from (element for triple in triples for element in triple if isinstance(element, str))


def changes_tokens(text: str, ends: list[int]) -> bool:
    """Return whether cutting a text at these places changes its tokens."""
    cuts = pairwise([0, *ends, len(text)])
    return [token for start, end in cuts for token in tokenize(text[start:end], "3.10")] != tokenize(text, "3.10")


if __name__ == "__main__":
    texts = {
        sha256(text.encode("utf-8", "surrogatepass")).hexdigest(): text
        for text in (text.rstrip() for text in release_texts(Path(sys.argv[1])))
    }
    TABLE.write_text("{}\n", encoding="ascii")  # so that `tokenize` cuts nothing yet
    found = sentence_ends(iter(texts.values()), Path(sys.argv[2]))
    kept = {key: ends for key, ends in found.items() if changes_tokens(texts[key], ends)}
    TABLE.write_text("{\n" + ",\n".join(f'"{key}": {value}' for key, value in kept.items()) + "\n}\n", encoding="ascii")
    print(f"{len(kept)} of {len(found)} texts")
