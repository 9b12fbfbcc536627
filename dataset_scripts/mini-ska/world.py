"""The invented archipelago that mini-ska asks about: its ships, yards, captains and islands."""

from itertools import combinations

from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, InstanceSet, Origin, UnitPool
from kbbench_hf.building.ska_bench.noise import NearRowMaker
from kbbench_hf.building.ska_bench.programs import Program, execute, reads

ISLANDS = (
    *("Marrow", "Tessel", "Quill", "Ostra", "Brannoch", "Velm", "Sarn", "Ildray"),
    *("Norrow", "Wick", "Hale", "Corrin", "Dunmeer", "Fallow", "Gannet", "Pell"),
)
YARDS = tuple(
    f"{first} {last}"
    for first in ("Grey", "Hallow", "Netherby", "Cold", "Stave", "Old Rope", "Lantern", "Tar")
    for last in ("Slip", "Dock", "Yard")
)
ADJECTIVES = ("Merry", "Salt", "Pale", "Ninth", "Long", "Amber", "Quiet", "Iron")
NOUNS = ("Auk", "Widow", "Lantern", "Wave", "Patience", "Petrel", "Anchor", "Harrier")
SHIPS = tuple(f"{adjective} {noun}" for noun in NOUNS for adjective in ADJECTIVES)
FIRST = ("Ada", "Bram", "Cato", "Dilys", "Edda", "Fenno", "Greta", "Hob")
LAST = ("Ferrin", "Oster", "Wren", "Marsh", "Lorn", "Gale", "Holm", "Tarrant")
CAPTAINS = tuple(f"{first} {last}" for last in LAST for first in FIRST)
LIGHTS = tuple(
    f"{colour} {rock}" for colour in ("Red", "White", "Low", "High") for rock in ("Fang", "Stack", "Ness", "Cliff")
)
HEADER = ("Ship", "Built", "Yard", "Length (m)", "Crew", "Home port")
DEEDS = (
    "charted the {} Strait in a borrowed dinghy and kept a tame seal in the galley",
    "wrote a cookbook of the {} kitchens after losing two fingers to a winch",
    "carried the mail through the {} gale and would not take a coin for it",
    "collected the tide tables of {} and left them to the library at Hook Street",
    "taught navigation in {} when failing eyes made the night watches hard",
    "painted every lighthouse from {} to the outer isles, twice on a bad day",
    "raised bees on the quarterdeck and sold the honey of {} in every harbour",
    "won the regatta of {} four times and named a daughter after the wind",
)
HABITS = (
    "Old hands say that nobody on the southern run slept less or read more.",
    "The parish book spells the name in three ways, none of them kindly.",
    "A portrait hangs in the harbour office, turned to the wall since the flood.",
    "Three crews asked for a transfer because of the concertina, and none got it.",
)
ORIGIN = Origin("mini-ska", "Apache-2.0")
MADE = ORIGIN._replace(made=True)
FACTS = {"source": ORIGIN.source, "licence": ORIGIN.licence, "method": "written"}
ENOUGH = 160
"""Near rows for one question: more than 4k tokens."""


SOUTH = 40
"""So many ships are of the southern fleet, whose yards and ports are not those of the northern one."""


def _ship(n: int) -> Cells:
    """Return the table row of a ship by its number; the factors spread the values without a pattern."""
    built, length, crew = 1851 + n * 11 % 45, 22 + n * 17 % 43, 7 + n * 13 % 31
    coast, yards = divmod(n, SOUTH)[0] * 8, divmod(n, SOUTH)[0] * 12
    return SHIPS[n], str(built), YARDS[yards + n * 7 % 12], str(length), str(crew), ISLANDS[coast + n * 5 % 8]


FLEET = [_ship(n) for n in range(len(SHIPS))]
SOUTHERN, NORTHERN = FLEET[:SOUTH], FLEET[SOUTH:]
MASTERS = {ship: CAPTAINS[(n * 27 + 5) % len(CAPTAINS)] for n, ship in enumerate(SHIPS)}
BIRTH = {captain: ISLANDS[(n * 3 + n // 16) % len(ISLANDS)] for n, captain in enumerate(CAPTAINS)}
TEACHER = {captain: CAPTAINS[(n * 19 + 11) % len(CAPTAINS)] for n, captain in enumerate(CAPTAINS)}


def _triples() -> list[Cells]:
    """Return the facts of the archipelago, as subject, relation and object."""
    facts: list[Cells] = [(captain, "born on", BIRTH[captain]) for captain in CAPTAINS]
    facts += [(captain, "trained under", TEACHER[captain]) for captain in CAPTAINS]
    for name, built, yard, _, crew, port in FLEET:
        facts += [(yard, "launched", name), (name, "home port", port), (name, "commanded by", MASTERS[name])]
        facts += [(name, "launched in", built), (name, "sailors", crew)]
    for n, yard in enumerate(YARDS):
        facts += [(yard, "lies on", ISLANDS[n * 11 % 16]), (yard, "founded in", str(1790 + n * 3))]
        facts.append((yard, "builder", f"{FIRST[n % 8]} {NOUNS[n // 3]}"))
    facts += [(island, "has lighthouse", f"{noun} Light") for island, noun in zip(ISLANDS, LIGHTS, strict=True)]
    return facts


TRIPLES = _triples()
NUMBER = {fact: n for n, fact in enumerate(TRIPLES)}

ELDERS = {  # ship -> (yard, home port, its master, where the master was born, who taught the master)
    "Merry Auk": ("Grey Slip", "Marrow", "Ada Ferrin", "Ostra", "Tolly Brand"),
    "Salt Widow": ("Hallow Dock", "Tessel", "Bram Oster", "Sarn", "Ada Ferrin"),
    "Kittiwake": ("Netherby Yard", "Quill", "Cato Wren", "Marrow", "Ada Ferrin"),
    "Long Patience": ("Old Ropewalk", "Ostra", "Dilys Marsh", "Ildray", "Bram Oster"),
    "Pale Lantern": ("Grey Slip", "Brannoch", "Edda Lorn", "Velm", "Tolly Brand"),
    "Ninth Wave": ("Hallow Dock", "Velm", "Fenno Gale", "Quill", "Cato Wren"),
    "Otter's Due": ("Netherby Yard", "Sarn", "Greta Holm", "Brannoch", "Dilys Marsh"),
    "Queen of Ildray": ("Old Ropewalk", "Ildray", "Hob Tarrant", "Tessel", "Edda Lorn"),
    "Rook and Anchor": ("Grey Slip", "Tessel", "Isolde Pike", "Sarn", "Fenno Gale"),
    "Thistledown": ("Netherby Yard", "Marrow", "Joss Varley", "Ostra", "Hob Tarrant"),
}
"""The ships that graph questions ask about; their ids and answers stay, so that answers to them stay answers."""
ELDER_YARDS = {"Grey Slip": "Tessel", "Hallow Dock": "Marrow", "Netherby Yard": "Velm", "Old Ropewalk": "Quill"}
FEW = (3, 6, 7)
ELDER_MASTERS = tuple(master for _, _, master, _, _ in ELDERS.values())


def _of_elders() -> list[Cells]:
    """Return what is said of the elder ships, and what is said of the others that does not touch them."""
    facts: list[Cells] = [(yard, "located on", island) for yard, island in ELDER_YARDS.items()]
    for ship, (yard, port, master, island, teacher) in ELDERS.items():
        facts += [(master, "born on", island), (master, "trained under", teacher)]
        facts += [(ship, "built at", yard), (ship, "home port", port), (ship, "commanded by", master)]
    theirs = {*ELDERS, *ELDER_YARDS, *ELDER_MASTERS}
    return facts + [fact for fact in TRIPLES if not theirs & {fact[0], fact[2]}]


OF_ELDERS = _of_elders()


def _follow(topic: str, *relations: str) -> tuple[Program, list[int], Cells]:
    """Return the program of a path, the numbers of all triples on it, and its answers."""
    ends, numbers = [topic], []
    for relation in relations:
        steps = [n for n, fact in enumerate(OF_ELDERS) if fact[0] in ends and fact[1] == relation]
        numbers += steps
        ends = [OF_ELDERS[n][2] for n in steps]
    terms = [topic, *(f"?{n}" for n in range(len(relations)))]
    where = [list(pattern) for pattern in zip(terms, relations, terms[1:], strict=False)]
    return {"type": "match", "find": terms[-1], "where": where}, numbers, tuple(sorted(set(ends)))


def _decoys(names: tuple[str, ...], entity: str, steps: tuple[int, ...] = (7, 19, 30)) -> Cells:
    return tuple(names[(names.index(entity) + step) % len(names)] for step in steps)


def graph_questions() -> list[Instance]:
    """Return questions of two steps on the graph alone."""
    master = ("commanded by", "born on"), "On which island was the master of the {} born?"
    yard = ("built at", "located on"), "On which island does the yard lie that built the {}?"
    asked = [(n, ship, *master) for n, ship in enumerate(ELDERS)]
    asked += [(n + 50, ship, *yard) for n, ship in enumerate(ELDERS) if n % 3 == 0]
    found = []
    for number, ship, path, words in asked:
        program, numbers, answers = _follow(ship, *path)
        found.append(
            Instance(
                f"mini-kg-{number:02}",
                "kg",
                words.format(ship),
                answers,
                "isles",
                split_key=ship,
                positive_sk=tuple(sorted(numbers)),
                topics=(ship,),
                decoys=(*_decoys(tuple(ELDERS), ship, FEW), *_decoys(ELDER_MASTERS, ELDERS[ship][2], FEW)),
                program=program,
                **FACTS,
            )
        )
    return found


def _sentences() -> list[tuple[str, Cells]]:
    """Return each sentence with the fact that it states."""
    taught = [
        (f"{c} learned the trade under {t} and never spoke of it ashore. {HABITS[n % 4]}", (c, "trained under", t))
        for n, (c, t) in enumerate(TEACHER.items())
    ]
    born = [
        (f"The parish book has {c} down as a child of {i}, like many others. {HABITS[n % 3]}", (c, "born on", i))
        for n, (c, i) in enumerate(BIRTH.items())
    ]
    return taught + born


def graph_and_text_questions() -> list[Instance]:
    """Return questions whose first condition is a triple, and whose second one only a sentence states."""
    sentences = _sentences()
    found = []
    for number, captain in enumerate(CAPTAINS[2::7]):
        island, teacher = BIRTH[captain], TEACHER[captain]
        taught = (captain, "trained under", teacher)
        asked = [("?who", "born on", island), ("?who", "trained under", teacher)]
        found.append(
            Instance(
                f"mini-kg_text-{number:02}",
                "kg_text",
                f"Who was born on {island} and trained under {teacher}?",
                (captain,),
                "isles",
                split_key=teacher,
                positive_sk=(NUMBER[captain, "born on", island],),
                positive_text=tuple(n for n, (_, fact) in enumerate(sentences) if fact == taught),
                withheld_sk=(NUMBER[taught],),
                topics=(island, teacher),
                decoys=_decoys(CAPTAINS, captain),
                program={"type": "match", "find": "?who", "where": [list(each) for each in asked]},
                **FACTS,
            )
        )
    return found


def _asked_of_table() -> list[tuple[str, Program]]:
    """Return questions on the southern fleet with their programs."""
    asked: list[tuple[str, Program]] = []
    for row in SOUTHERN[4:40:14]:
        where = [[2, row[2].lower()], [5, row[5].lower()]]
        words = f"How many sailors had the ship of {row[5]} that was built at {row[2]}?"
        asked.append((words, {"type": "lookup", "where": where, "select": 4}))
    for port in ISLANDS[1:8:2]:
        asked.append(
            (f"How many ships have {port} as their home port?", {"type": "count", "where": [[5, port.lower()]]})
        )
    for one, other in combinations(SOUTHERN[2:40:9], 2):
        values = [one[0].lower(), other[0].lower()]
        if len(asked) % 2:
            words = f"By how many metres do the {one[0]} and the {other[0]} differ in length?"
            asked.append((words, {"type": "diff", "key": 0, "by": 3, "values": values}))
        else:
            words = f"Which ship was built later, the {one[0]} or the {other[0]}?"
            asked.append((words, {"type": "compare", "key": 0, "by": 1, "values": values, "op": "argmax2"}))
    return asked[:17]


def table_questions() -> tuple[list[Instance], dict[str, list[Cells]]]:
    """Return questions on the southern fleet, and the near rows of each."""
    found, groups = [], {}
    for number, (question, program) in enumerate(_asked_of_table()):
        positive = [n for n, row in enumerate(SOUTHERN) if reads(program, row)]
        name = f"mini-table-{number:02}"
        groups[f"{name}#near"] = NearRowMaker(
            name,
            question,
            program,
            [SOUTHERN[n] for n in positive],
            [row for row in (*SOUTHERN, *NORTHERN) if not reads(program, row)],
        ).make(ENOUGH)
        found.append(
            Instance(
                name,
                "table",
                question,
                tuple(execute(program, SOUTHERN)),
                "southern",
                answer_type="entity" if program["type"] == "compare" else "number",
                split_key="southern",
                positive_sk=tuple(positive),
                noise_groups=("northern", f"{name}#near"),
                program=program,
                **FACTS,
            )
        )
    return found, groups


def _stories() -> list[Cells]:
    """Return a passage about each captain, as title and text."""
    return [
        (captain, f"{captain} {DEEDS[n % 8].format(ISLANDS[n * 7 % 16])}. {HABITS[n % 4]} {HABITS[(n + 1) % 4]}")
        for n, captain in enumerate(CAPTAINS)
    ]


def table_and_text_questions() -> list[Instance]:
    """Return questions that need a ship's row and a passage about its master."""
    stories = [title for title, _ in _stories()]
    words = (
        "Which strait did the master of the {} chart?",
        "Of which kitchens did the master of the {} write a cookbook?",
        "Through the gale of which island did the master of the {} carry the mail?",
        "Of which island did the master of the {} collect tide tables?",
        "In which place did the master of the {} teach navigation?",
        "From which island on did the master of the {} paint lighthouses?",
    )
    found = []
    for number, template in enumerate(words):
        captain = CAPTAINS[number + 8 * number]
        row = [MASTERS[ship[0]] for ship in FLEET].index(captain)
        found.append(
            Instance(
                f"mini-table_text-{number:02}",
                "table_text",
                template.format(FLEET[row][0]),
                (ISLANDS[CAPTAINS.index(captain) * 7 % 16],),
                "masters",
                split_key="masters",
                positive_sk=(row,),
                positive_text=(stories.index(captain),),
                own_text=tuple(range(len(stories))),
                **FACTS,
            )
        )
    return found


def release() -> InstanceSet:
    """Return all questions, and the pools they are asked on."""
    tables, near = table_questions()
    sentences = _sentences()
    links = {n: (NUMBER[fact],) for n, (_, fact) in enumerate(sentences)}
    stories = _stories()
    masters = [(*row[:2], MASTERS[row[0]], *row[4:]) for row in FLEET]
    origins = {"southern": ORIGIN, "northern": ORIGIN, **dict.fromkeys(near, MADE)}
    pools = {
        "kg": UnitPool({"isles": OF_ELDERS}, origins={"isles": ORIGIN}),
        "table": UnitPool(
            {"southern": SOUTHERN, "northern": NORTHERN, **near},
            headers={"southern": HEADER, "northern": HEADER},
            origins=origins,
        ),
        "kg_text": UnitPool(
            {"isles": TRIPLES},
            [("", text) for text, _ in sentences],
            links=links,
            origins={"isles": ORIGIN},
            text_origins=[ORIGIN] * len(sentences),
        ),
        "table_text": UnitPool(
            {"masters": masters},
            stories,
            {"masters": ("Ship", "Built", "Master", "Crew", "Home port")},
            origins={"masters": ORIGIN},
            text_origins=[ORIGIN] * len(stories),
        ),
    }
    return InstanceSet([*graph_questions(), *tables, *graph_and_text_questions(), *table_and_text_questions()], pools)
