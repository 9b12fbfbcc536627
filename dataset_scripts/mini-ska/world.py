"""The invented archipelago that mini-ska asks about: its ships, yards, captains and islands."""

from collections.abc import Iterator
from typing import Any

ISLANDS = ["Marrow", "Tessel", "Quill", "Ostra", "Brannoch", "Velm", "Sarn", "Ildray"]
YARDS = {"Grey Slip": "Tessel", "Hallow Dock": "Marrow", "Netherby Yard": "Velm", "Old Ropewalk": "Quill"}
CAPTAINS = {  # captain -> (born on, trained under)
    "Ada Ferrin": ("Ostra", "Tolly Brand"),
    "Bram Oster": ("Sarn", "Ada Ferrin"),
    "Cato Wren": ("Marrow", "Ada Ferrin"),
    "Dilys Marsh": ("Ildray", "Bram Oster"),
    "Edda Lorn": ("Velm", "Tolly Brand"),
    "Fenno Gale": ("Quill", "Cato Wren"),
    "Greta Holm": ("Brannoch", "Dilys Marsh"),
    "Hob Tarrant": ("Tessel", "Edda Lorn"),
    "Isolde Pike": ("Sarn", "Fenno Gale"),
    "Joss Varley": ("Ostra", "Hob Tarrant"),
}
HEADER = ["Ship", "Built", "Yard", "Length (m)", "Crew", "Home port"]
SHIPS = [
    ["Merry Auk", "1871", "Grey Slip", "31", "12", "Marrow"],
    ["Salt Widow", "1868", "Hallow Dock", "44", "21", "Tessel"],
    ["Kittiwake", "1880", "Netherby Yard", "27", "9", "Quill"],
    ["Long Patience", "1859", "Old Ropewalk", "52", "30", "Ostra"],
    ["Pale Lantern", "1874", "Grey Slip", "38", "16", "Brannoch"],
    ["Ninth Wave", "1883", "Hallow Dock", "29", "11", "Velm"],
    ["Otter's Due", "1866", "Netherby Yard", "33", "14", "Sarn"],
    ["Queen of Ildray", "1890", "Old Ropewalk", "61", "42", "Ildray"],
    ["Rook and Anchor", "1877", "Grey Slip", "35", "15", "Tessel"],
    ["Thistledown", "1862", "Netherby Yard", "24", "8", "Marrow"],
]
NORTHERN_SHIPS = [
    ["Ash Harrier", "1869", "Cold Slip", "40", "18", "Norrow"],
    ["Blue Petrel", "1885", "Cold Slip", "26", "10", "Wick"],
    ["Candlemas", "1873", "Stave Yard", "37", "17", "Norrow"],
    ["Drift Ice", "1881", "Stave Yard", "48", "25", "Hale"],
]
MASTERS = dict(zip([ship[0] for ship in SHIPS], CAPTAINS, strict=True))
STORIES = {
    "Ada Ferrin": "charted the Needle Strait in a borrowed dinghy and kept a tame seal named Bishop.",
    "Bram Oster": "lost two fingers to a winch and wrote a cookbook titled Galley Smoke.",
    "Cato Wren": "played the concertina so badly that three crews asked for a transfer.",
    "Dilys Marsh": "won the Sarn regatta four times and named her daughter Tempest.",
    "Edda Lorn": "carried the mail through the Lantern Gale and was given the Silver Knot.",
    "Fenno Gale": "collected tide tables and left them to the library at Hook Street.",
    "Greta Holm": "taught navigation at the Brass School after her eyes grew weak.",
    "Hob Tarrant": "was the last master to sail by the old harbour bells.",
    "Isolde Pike": "painted every lighthouse of the outer isles in a book called White Towers.",
    "Joss Varley": "raised bees on the quarterdeck and sold the honey as Seven Seas Gold.",
}
STORY_QUESTIONS = {
    "Ada Ferrin": ("What was the tame seal of the master of the {} called?", "Bishop"),
    "Bram Oster": ("Which cookbook did the master of the {} write?", "Galley Smoke"),
    "Edda Lorn": ("Which honour was given to the master of the {}?", "Silver Knot"),
    "Greta Holm": ("At which school did the master of the {} teach?", "Brass School"),
    "Isolde Pike": ("Which book of lighthouses did the master of the {} paint?", "White Towers"),
    "Joss Varley": ("Under which name did the master of the {} sell honey?", "Seven Seas Gold"),
}
PROVENANCE = {"dataset": "mini-ska", "licence": "Apache-2.0"}


def triples() -> list[tuple[str, str, str]]:
    facts = [(yard, "located on", island) for yard, island in YARDS.items()]
    for captain, (island, teacher) in CAPTAINS.items():
        facts += [(captain, "born on", island), (captain, "trained under", teacher)]
    for name, _, yard, *_, port in SHIPS:
        facts += [(name, "built at", yard), (name, "home port", port), (name, "commanded by", MASTERS[name])]
    return facts


def instance(number: int, kind: str, question: str, answers: list[str], **fields: Any) -> dict[str, Any]:
    return {
        "id": f"mini-{kind}-{number:02}",
        "question": question,
        "answers": answers,
        "pos_method": "written",
        "pos_confidence": "written",
        "provenance": PROVENANCE,
        **fields,
    }


def pool() -> Iterator[dict[str, Any]]:
    for number, fact in enumerate(triples()):
        yield {"pool": "isles", "uid": f"isles:{number}", "triple": list(fact)}


def graph_questions() -> Iterator[dict[str, Any]]:
    facts = triples()

    def uid(*fact: str) -> str:
        return f"isles:{facts.index(fact)}"

    for number, (name, _, yard, *_) in enumerate(SHIPS):
        captain = MASTERS[name]
        island, _ = CAPTAINS[captain]
        yield instance(
            number,
            "kg",
            f"On which island was the master of the {name} born?",
            [island],
            subset="KG",
            pool="isles",
            topic_entities=[name],
            positive_uids=[uid(name, "commanded by", captain), uid(captain, "born on", island)],
            program={"type": "follow", "topics": [name], "relations": [["commanded by", "born on"]]},
        )
        if number % 3 == 0:
            yield instance(
                number + 50,
                "kg",
                f"On which island does the yard lie that built the {name}?",
                [YARDS[yard]],
                subset="KG",
                pool="isles",
                topic_entities=[name],
                positive_uids=[uid(name, "built at", yard), uid(yard, "located on", YARDS[yard])],
                program={"type": "follow", "topics": [name], "relations": [["built at", "located on"]]},
            )


def sentences() -> Iterator[dict[str, Any]]:
    facts = triples()
    for captain, (island, teacher) in CAPTAINS.items():
        stated = [facts.index((captain, "trained under", teacher))]
        text = f"{captain} learned the trade under {teacher} and never spoke of it ashore."
        yield {"uid": f"s-{captain}", "text": text, "triples": [f"isles:{n}" for n in stated]}
        stated = [facts.index((captain, "born on", island))]
        text = f"The parish book has {captain} down as a child of {island}, like many others."
        yield {"uid": f"b-{captain}", "text": text, "triples": [f"isles:{n}" for n in stated]}


def graph_and_text_questions() -> Iterator[dict[str, Any]]:
    facts = triples()
    for number, (captain, (island, teacher)) in enumerate(CAPTAINS.items()):
        others = [c for c, (i, t) in CAPTAINS.items() if (i, t) == (island, teacher)]
        yield instance(
            number,
            "kg_text",
            f"Who was born on {island} and trained under {teacher}?",
            others,
            subset="KG+Text",
            pool="isles",
            positive_triple_uids=[f"isles:{facts.index((captain, 'born on', island))}"],
            positive_text_uids=[f"s-{captain}"],
            withheld_triple_uids=[f"isles:{facts.index((captain, 'trained under', teacher))}"],
            program={"type": "conj", "r1": "born on", "o1": island, "r2": "trained under", "o2": teacher},
        )


def table(identifier: str, rows: list[list[str]], positive: set[int], header: list[str] = HEADER) -> dict[str, Any]:
    units = [{"cells": row, "order": n, "positive": n in positive, "uid": f"r{n}"} for n, row in enumerate(rows)]
    return {"table": {"id": identifier, "header": header}, "sk_units": units, "text_units": []}


def table_questions() -> Iterator[dict[str, Any]]:
    def ask(number: int, question: str, answer: str, program: dict[str, Any], positive: set[int]) -> dict[str, Any]:
        asked = table("southern", SHIPS, positive)
        return instance(number, "table", question, [answer], subset="Table", program=program, **asked)

    for number, row in enumerate(SHIPS):
        program = {"type": "lookup", "where": [[0, row[0].lower()]], "select": 4}
        yield ask(number, f"How many sailors are the crew of the {row[0]}?", row[4], program, {number})
    for number, yard in enumerate(YARDS, start=20):
        positive = {n for n, row in enumerate(SHIPS) if row[2] == yard}
        program = {"type": "count", "where": [[2, yard.lower()]]}
        yield ask(number, f"How many ships were built at {yard}?", str(len(positive)), program, positive)
    for number, (a, b) in enumerate([(0, 3), (1, 7), (5, 9)], start=30):
        values = [SHIPS[a][0].lower(), SHIPS[b][0].lower()]
        question = f"How many metres lie between the lengths of the {SHIPS[a][0]} and the {SHIPS[b][0]}?"
        difference = str(abs(int(SHIPS[a][3]) - int(SHIPS[b][3])))
        yield ask(number, question, difference, {"type": "diff", "key": 0, "by": 3, "values": values}, {a, b})


def table_and_text_questions() -> Iterator[dict[str, Any]]:
    rows = [[*row[:2], MASTERS[row[0]], *row[4:]] for row in SHIPS]
    header = ["Ship", "Built", "Master", "Crew", "Home port"]
    for number, (captain, (question, answer)) in enumerate(STORY_QUESTIONS.items()):
        place = [row[2] for row in rows].index(captain)
        asked = table("masters", rows, {place}, header)
        asked["text_units"] = [
            {"uid": f"p{n}", "title": name, "text": f"{name} {story}", "positive": name == captain, "order": n}
            for n, (name, story) in enumerate(STORIES.items())
        ]
        asked_of = question.format(rows[place][0])
        yield instance(number, "table_text", asked_of, [answer], subset="Table+Text", program=None, **asked)


FILES = {
    "graph": graph_questions,
    "graph_pool": pool,
    "sentences": sentences,
    "graph_and_text": graph_and_text_questions,
    "table": table_questions,
    "donor_tables": lambda: iter([{"table_id": "northern", "header": HEADER, "rows": NORTHERN_SHIPS}]),
    "table_and_text": table_and_text_questions,
}
"""Name of a file in the instances format -> its lines."""
