"""Submissions as strangers make them: of attackers who want another's name, answers or place, and of honest people.

`attacks` and `honest` return what is sent, in order; who reads the board judges what it shows.
"""

import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kbbench_hf.benchmarks import shipped_dataset
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import preview, store_preview
from kbbench_hf.leaderboard.table import board
from kbbench_hf.scoring.eval_task import load_examples

Rows = list[dict[str, Any]]
DATASET = "mini-text2kg"


class Sent(NamedTuple):
    """One submission."""

    who: str
    name: str
    rows: Rows
    organisations: tuple[str, ...] = ()
    dataset: str = DATASET
    mode: str | None = None


class Attack(NamedTuple):
    """What happens, and which of the submissions is the attacker's; the others are honest."""

    what: str
    sent: Sequence[Sent]
    flagged: frozenset[int]


def gold(dataset: str = DATASET) -> Rows:
    """Return the gold of a benchmark as a predictions file would have it, relations as its ontologies write them."""
    rows = load_examples(dataset).examples.rows
    if "answers" in rows[0]:
        return [{"id": row["id"], "answers": list(row["answers"])} for row in rows]
    if "answer_ids" in rows[0]:
        return [{"id": row["id"], "ids": list(row["answer_ids"])} for row in rows]
    return [
        {
            "id": row["id"],
            "triples": [[each["sub"], each["rel"].replace(" ", "_"), each["obj"]] for each in row["triples"]],
        }
        for row in rows
    ]


def pattern() -> Rows:
    """Return the answers of a small honest system."""
    file = shipped_dataset(DATASET).path / "predictions" / "pattern.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()]


def changed(rows: Rows, change: Callable[[list[list[str]]], list[list[str]]], chosen: Sequence[int]) -> Rows:
    """Return rows with some answers changed."""
    return [
        {**row, "triples": change([list(each) for each in row["triples"]])} if n in set(chosen) else row
        for n, row in enumerate(rows)
    ]


def wrong(triples: list[list[str]]) -> list[list[str]]:
    """Return an answer with its first object exchanged."""
    return [[*triples[0][:2], f"{triples[0][2]} the younger"], *triples[1:]] if triples else [["a", "b", "c"]]


LOOK_ALIKES = {
    "Cyrillic": ("KOTO", "К\u041eТ\u041e"),
    "Cyrillic, one letter": ("Gemma", "Gemm\u0430"),
    "Greek": ("KOTO", "\u039a\u039f\u03a4\u039f"),
    "Armenian": ("Sonus", "\u054fonus"),
    "Cherokee": ("KOTO", "\u13e6\u13be\u13a2\u13be"),
    "Lisu": ("KOTO", "\ua4d7\ua4f3\ua4d4\ua4f3"),
    "Coptic": ("KOTO", "\u2c94\u2c9e\u2ca6\u2c9e"),
    "full width": ("KOTO", "\uff2b\uff2f\uff34\uff2f 2".removesuffix(" 2")),
    "digits": ("KOTO", "K0T0"),
    "capital i": ("Llama", "LIama"),
    "case and spaces": ("KOTO", "ko to"),
    "accents": ("KOTO", "K\u00d6T\u00d3"),
    "Devanagari": ("\u0915\u094b\u091f\u094b", "\u0915\u093e\u0947\u091f\u093e\u0947"),
    "Katakana and Han": ("\u30cb\u53f7", "\u4e8c\u53f7"),
    "rn for m": ("Gemma", "Gernma"),
    "small capitals": ("KOTO", "\u1d0b\u1d0f\u1d1b\u1d0f"),
}
"""What of -> a name, and one that is taken for it."""


def attacks(seed: int = 7) -> Iterator[Attack]:
    """Yield attacks, each on a board of its own."""
    generator = random.Random(seed)
    mine, exact = pattern(), gold()
    other = changed(mine, wrong, range(0, 48, 3))
    for what, (name, twin) in LOOK_ALIKES.items():
        yield Attack(f"look-alike: {what}", [Sent("ada", name, mine), Sent("eve", twin, other)], frozenset({1}))
    yield Attack("look-alike first", [Sent("eve", "K\u041eTO", other), Sent("ada", "KOTO", mine)], frozenset({0}))
    yield Attack("another's name", [Sent("ada", "KOTO", mine), Sent("eve", "KOTO", other)], frozenset({1}))
    yield Attack("name and answers", [Sent("ada", "KOTO", mine), Sent("eve", "KOTO", mine)], frozenset({1}))
    squat = [Sent("eve", "acme/KOTO", mine), Sent("ada", "acme/KOTO", mine, ("acme",))]
    yield Attack("squatting before the organisation", squat, frozenset({0}))
    own = [Sent("eve", "ada/KOTO", other), Sent("ada", "ada/KOTO", mine)]
    yield Attack("squatting under an account", own, frozenset({0}))
    yield Attack("claiming to be official", [Sent("eve", "GPT-4 @OpenAI official", mine)], frozenset({0}))
    yield Attack("official in disguise", [Sent("eve", "GPT-4 (\u043efficia\u217c)", mine)], frozenset({0}))
    yield Attack("speaking for another", [Sent("ada", "X1", other), Sent("eve", "KOTO by ada", mine)], frozenset({1}))
    yield Attack("copy", [Sent("ada", "KOTO", mine), Sent("eve", "Mine", mine)], frozenset({1}))
    spelled = [
        {"id": row["id"], "triples": [[f" {part.upper()} " for part in each] for each in reversed(row["triples"])]}
        for row in mine
    ]
    vouching = [Sent("ada", "KOTO", mine), Sent("eve", "eve/Mine", mine)]
    yield Attack("copy under one's own account", vouching, frozenset({1}))
    repaired = Sent("eve", "Mine", mine, (), DATASET, "repaired")
    yield Attack("copy in another mode", [Sent("ada", "KOTO", mine), repaired], frozenset({1}))
    taken = [Sent("ada", "Eve KOTO", mine), Sent("eve", "eve/KOTO", other)]
    yield Attack("an account like a name blames nobody", taken, frozenset())
    yield Attack("copy in other spelling", [Sent("ada", "KOTO", mine), Sent("eve", "Mine", spelled)], frozenset({1}))
    edited = changed(mine, wrong, [20])
    yield Attack("copy with one edit", [Sent("ada", "KOTO", mine), Sent("eve", "Mine", edited)], frozenset({1}))
    five = [Sent("eve", f"system {n}", mine) for n in range(5)]
    yield Attack("five copies", five, frozenset({1, 2, 3, 4}))
    yield Attack("replay as another", [Sent("ada", "KOTO", mine), Sent("eve", "KOTO ", mine)], frozenset({1}))
    released = [{**row, "triples": [[s, r.replace("_", " "), o] for s, r, o in row["triples"]]} for row in exact]
    yield Attack("gold", [Sent("eve", "Oracle", exact)], frozenset({0}))
    yield Attack("gold as released", [Sent("eve", "Oracle", released)], frozenset({0}))
    mixed = changed(
        exact, lambda each: generator.sample([[part.upper() for part in t] for t in each], len(each)), range(48)
    )
    yield Attack("gold shuffled", [Sent("eve", "Oracle", mixed)], frozenset({0}))
    for n in (1, 2):
        edits = changed(exact, wrong, generator.sample(range(48), n))
        yield Attack(f"gold with {n} edits", [Sent("eve", "Oracle", edits)], frozenset({0}))
    yield Attack("gold with one emptied", [Sent("eve", "Oracle", changed(exact, lambda each: [], [5]))], frozenset({0}))
    padded = changed(exact, lambda each: [*each, ["a", "b", "c"]], range(48))
    yield Attack("gold with something beside it", [Sent("eve", "Oracle", padded)], frozenset({0}))
    yield Attack(
        "gold of a retrieval benchmark", [Sent("eve", "Oracle", gold("mini-stark"), (), "mini-stark")], frozenset({0})
    )
    nodes = sorted({each for row in gold("mini-stark") for each in row["ids"]})
    tail = [
        {**row, "ids": [*row["ids"], *(n for n in nodes if n not in row["ids"])][:50]} for row in gold("mini-stark")
    ]
    yield Attack("gold before a ranking", [Sent("eve", "Oracle", tail, (), "mini-stark")], frozenset({0}))
    yield Attack(
        "gold of open extraction", [Sent("eve", "Oracle", gold("mini-genres"), (), "mini-genres")], frozenset({0})
    )


NAMES = (
    *(
        "KOTO KOTA KATO KOTO-v2 BM25 BM25+ BM25L T5 TS-Net λ-Extract Λ2 μ-Net β-VAE-RE αβ-Search ν-Rank कोटो कोटा कोटि"
    ).split(),
    *(
        "मॉडल-१ मॉडल-२ модель модели 模型一 模型二 モデル モテル 모델 نموذج מודל Ünïcode-X GPT-4 GPT-4o GPT-4.1 REBEL"
    ).split(),
    *("REBEL-large Qwen2-7B Qwen2.5-7B Llama-3 Llama-3.1 e5 E5-Mistral rrf(bm25,dense) meta-llama/Llama-3-8B").split(),
    *(
        "Llama-3 official weights",
        "unofficial GPT-4",
        "self-verified CoT",
        "hits@1 tuned",
        "KG-RAG (k 5)",
        "ruBERT-модель",
    ),
)
"""Names that honest people give; none is another's, however near."""


def honest(n: int, seed: int = 11) -> Iterator[Sent]:
    """Yield honest submissions, n of them extractors: of every quality, seeds, ensembles, near namesakes."""
    generator = random.Random(seed)
    exact, base = gold(), pattern()
    questions = gold("mini-ska")
    for who in ("user-a", "user-b"):  # few short answers, all of which a good system has
        yield Sent(who, f"Reader of {who}", questions, (), "mini-ska")
        yield Sent(who, f"Small reader of {who}", [{**questions[0], "answers": []}, *questions[1:]], (), "mini-ska")
    pool: list[tuple[str, Rows]] = []
    for number in range(n):
        kind = number % 5
        who, name = f"user{number}", NAMES[number] if number < len(NAMES) else f"System {number}"
        if kind == 0 or not pool:  # a good system, as good as 41 of 48
            rows = changed(exact, wrong, generator.sample(range(48), generator.randint(6, 30)))
        elif kind == 1:  # another seed of one's own: most answers are the same
            who, parent = generator.choice(pool)
            rows = changed(parent, wrong, generator.sample(range(48), generator.randint(1, 6)))
        elif kind == 2:  # an ensemble of two systems of others
            (_, one), (_, two) = generator.choice(pool), generator.choice(pool)
            rows = [generator.choice(pair) for pair in zip(one, two, strict=True)]
            rows = changed(rows, wrong, generator.sample(range(48), 4))
        elif kind == 3:  # a cautious one, which leaves out what it is not sure of
            left_out = generator.sample(range(48), generator.randint(7, 40))
            rows = changed(exact, lambda each: each[:-1], left_out)
        else:  # a small system, changed a little
            rows = changed(base, wrong, generator.sample(range(48), generator.randint(4, 20)))
        pool.append((who, rows))
        yield Sent(who, name, rows)


def flagged(store: Store, sent: Iterable[Sent], folder: Path) -> dict[int, list[str]]:
    """Store what is sent and return, by its number, the codes of the flags that the boards show of it."""
    numbers: dict[str, int] = {}
    for number, each in enumerate(sent):
        file = folder / "mine.jsonl"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in each.rows), encoding="utf-8")
        read = preview(file, each.dataset, mode=each.mode)
        receipt = store_preview(store, read, System(each.name), each.who, organisations=each.organisations)
        numbers.setdefault(receipt.id, number)
    index = Index(store)
    index.update()
    rows = [row for place in index.places() for row in board(index, place)]
    return {numbers[row.id]: [flag.code for flag in row.flags] for row in rows if row.flags}
