"""The subset `table_text` from a small made-up source in the layout of the raw files."""

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import pytest

from kbbench_hf.building.ska_bench import hybridqa, hybridqa_evidence, table_text
from kbbench_hf.building.ska_bench.hybridqa import (
    QUESTIONS,
    TABLES,
    LinkedTable,
    read_questions,
)
from kbbench_hf.building.ska_bench.name_matching import WordWeights, is_found_by_cells, mentions_name
from kbbench_hf.building.ska_bench.source_files import join_tokens
from kbbench_hf.building.ska_bench.table_text import chains, comparisons, compose
from kbbench_hf.errors import DataError

PEOPLE = ["Ann Berg", "Bo Dahl", "Cy Falk", "Di Holm", "Eli Lind"]
PORTS = ["Skagen", "Lund", "Bergen", "Rostock", "Malmo"]
TRADES = ["weaver", "smith", "baker", "cooper", "tanner"]
SIGNS = ["lighthouse", "windmill", "cathedral", "fortress", "aquarium"]
CLUBS = ["Alpha", "Bravo", "Castor", "Delta", "Echo"]


def link(name: str) -> str:
    return "/wiki/" + name.replace(" ", "_")


def table(name: str) -> dict:
    """Five captains with a home port; the captain's passage says birth and trade, the port's what it is known for."""
    passages = {}
    for n, (person, port) in enumerate(zip(PEOPLE, PORTS, strict=True)):
        passages[link(person)] = f"{person} ( born May {n + 1} , {1950 + 3 * n} ) was trained as a {TRADES[n]} ."
        passages[link(port)] = f"{port} is a harbour with a famous {SIGNS[n]} , founded by {CLUBS[n]} monks ."
    return {
        "table": name,
        "title": f"Regatta {name}",
        "section": "Crews",
        "header": ["Club", "Captain", "Home port", "Points"],
        "rows": [
            [[CLUBS[n], []], [PEOPLE[n], [link(PEOPLE[n])]], [PORTS[n], [link(PORTS[n])]], [str(40 + 7 * n), []]]
            for n in range(5)
        ],
        "passages": passages,
    }


def question(name: str, text: str, answer: str, row: int, **fields: object) -> dict:
    plain = {"row_cells_quoted": [], "answer_passages": [], "bridge_passages": [], "bridge_hits_in_table": 0}
    asked = {"id": name, "question": text, "answer": answer, "row": row, "answer_in_table": False}
    return {**asked, **plain, **fields}


IN_PASSAGE = question(
    "p", "What trade did the captain of Castor learn ?", "baker", 2, answer_passages=[link(PEOPLE[2])]
)
IN_TABLE = question(
    "t", "How many points has the crew from the harbour with a windmill ?", "47", 1, answer_in_table=True
)
BRIDGED = question(
    "b",
    "What trade did the captain from the harbour with a fortress learn ?",
    "cooper",
    3,
    answer_passages=[link(PEOPLE[3])],
    bridge_passages=[link(PORTS[3])],
    bridge_hits_in_table=1,
)
LEFT_OUT = [
    question("thing", "What is the club from the harbour with a windmill ?", "47", 1, answer_in_table=True),
    question("best", "Who is the oldest captain ?", "Ann Berg", 0, answer_in_table=True),
    question("asked", "Did Ann Berg learn to be a weaver ?", "weaver", 0, answer_passages=[link(PEOPLE[0])]),
    question(
        "named", "What did the captain of Castor from Odense learn ?", "baker", 2, answer_passages=[link(PEOPLE[2])]
    ),
    question("alone", "What trade did Cy Falk learn ?", "baker", 2, answer_passages=[link(PEOPLE[2])]),
    question("absent", "What trade did the captain of Castor learn ?", "baker", 2, answer_passages=["/wiki/Nobody"]),
    question("vague", "What is the trade of a captain ?", "smith", 1, answer_passages=[link(PEOPLE[1])]),
]


def source(folder: Path, questions: list[dict], tables: int = 1, shuffled: int | None = None) -> Path:
    stored = [table(f"t{n}") for n in range(tables)]
    asked = [{**each, "id": f"{each['id']}{n}", "table": f"t{n}"} for n in range(tables) for each in questions]
    if shuffled is not None:
        random.Random(shuffled).shuffle(stored)
        random.Random(shuffled).shuffle(asked)
    folder.mkdir(exist_ok=True)
    for file, objects in ((TABLES, stored), (QUESTIONS, asked)):
        with gzip.open(folder / file, "wt", encoding="utf-8") as out:
            out.writelines(json.dumps(each) + "\n" for each in objects)
    return folder


def found(folder: Path, asked: dict) -> hybridqa_evidence.QuestionEvidence | None:
    questions, tables = read_questions(source(folder, [asked]))
    return hybridqa_evidence.find_evidence(questions[0], hybridqa_evidence.TableWords(tables["t0"]))


def test_an_answer_in_a_passage_needs_its_row_and_that_passage(tmp_path: Path) -> None:
    each = found(tmp_path, IN_PASSAGE)
    assert each and (each.rows, each.links, each.answer_columns) == ((2,), (link("Cy Falk"),), (1,))


def test_an_answer_in_a_row_needs_the_passage_that_holds_the_question_s_words(tmp_path: Path) -> None:
    each = found(tmp_path, IN_TABLE)
    assert each and (each.rows, each.links, each.answer_columns) == ((1,), (link("Lund"),), (3,))


def test_two_passages_that_only_their_row_joins_are_three_units(tmp_path: Path) -> None:
    each = found(tmp_path, BRIDGED)
    assert each and each.links == (link("Di Holm"), link("Rostock")) and each.is_joined and len(each.rows) == 1


def test_words_that_too_many_passages_hold_point_to_no_second_one(tmp_path: Path) -> None:
    assert found(tmp_path, {**BRIDGED, "bridge_hits_in_table": 3})
    assert not found(tmp_path, {**BRIDGED, "bridge_hits_in_table": 4})


def test_where_a_passage_names_the_other_page_the_row_may_not_be_needed(tmp_path: Path) -> None:
    bridged = {
        **BRIDGED,
        "question": "What trade did the captain from the harbour with a fortress , who has 61 points , learn ?",
    }
    questions, tables = read_questions(source(tmp_path, [bridged]))
    told = {**tables["t0"].passages, link("Di Holm"): "Di Holm of Rostock was trained as a cooper."}
    each = hybridqa_evidence.find_evidence(
        questions[0], hybridqa_evidence.TableWords(tables["t0"]._replace(passages=told))
    )
    assert each and not each.is_joined


@pytest.mark.parametrize("asked", LEFT_OUT, ids=lambda each: each["id"])
def test_a_question_is_left_out_if_its_words_do_not_settle_its_evidence(asked: dict, tmp_path: Path) -> None:
    assert found(tmp_path, asked) is None


def test_a_passage_that_another_row_links_to_settles_nothing(tmp_path: Path) -> None:
    questions, tables = read_questions(source(tmp_path, [IN_TABLE]))
    rows = [list(row) for row in tables["t0"].links]
    rows[4][2] = (link("Lund"),)
    shared = tables["t0"]._replace(links=tuple(map(tuple, rows)))
    assert hybridqa_evidence.find_evidence(questions[0], hybridqa_evidence.TableWords(shared)) is None


def test_two_rows_are_compared_by_what_their_passages_say(tmp_path: Path) -> None:
    _, tables = read_questions(source(tmp_path, [IN_PASSAGE]))
    classes = [("Dinghy", "North"), ("Dinghy", "South"), ("Keel", "South"), ("Keel", "North"), ("Keel", "South")]
    plain = tables["t0"]
    rows = tuple((*row, *more) for row, more in zip(plain.rows, classes, strict=True))
    links = tuple((*row, (), ()) for row in plain.links)
    crews = plain._replace(header=(*plain.header, "Class", "Water"), rows=rows, links=links)
    [each] = compose(comparisons, [crews])
    assert not is_found_by_cells(each.question, [rows[n] for n in each.rows], [r for r in rows if r not in each.rows])
    one, other = each.rows
    assert each.answer == PEOPLE[min(one, other)]  # who stands first was born first
    assert "who was born earlier: the Captain where" in each.question and not mentions_name(each.question, each.answer)
    assert [rows[n][1] for n in each.rows] == [
        each.links[0][6:].replace("_", " "),
        each.links[1][6:].replace("_", " "),
    ]


def crews() -> LinkedTable:
    """A table with two columns by which only pairs of cells name a row."""
    classes = [("Dinghy", "North"), ("Dinghy", "South"), ("Keel", "South"), ("Keel", "North"), ("Keel", "South")]
    stored = table("t0")
    for row, more in zip(stored["rows"], classes, strict=True):
        row += [[cell, []] for cell in more]
    cells = [[(text, tuple(links)) for text, links in row] for row in stored["rows"]]
    return LinkedTable(
        "t0",
        "Captain race",
        "Crews",
        (*stored["header"], "Class", "Water"),
        tuple(tuple(text for text, _ in row) for row in cells),
        tuple(tuple(links for _, links in row) for row in cells),
        {
            page: f"{text} A captain knows it.".replace(" ( ", " (").replace(" )", ")").replace(" , ", ", ")
            for page, text in stored["passages"].items()
        },
    )


WORDS = {"captain", "club", "home", "port", "class", "water", "points"}


def test_a_comparison_is_worded_as_people_do_and_names_no_title() -> None:
    [each] = compose(comparisons, [crews()], WORDS)
    assert each.question.startswith("Who was born earlier, the captain ") and " or the one " in each.question
    assert not any(word in each.question for word in ("Captain", "race", " where ", "Class"))


def test_a_cell_whose_words_another_row_has_too_names_no_row() -> None:
    crew = crews()
    longer = [*map(list, crew.rows)]
    names = [row[0] for row in longer]
    for row, other in zip(longer, [*names[1:], names[0]], strict=True):
        row[0] = f"{row[0]} (with {other})"
    asked = [each.question for each in compose(comparisons, [crew], WORDS, {"t0": 9})]
    mixed = crew._replace(
        rows=(*crew.rows, *map(tuple, longer)), links=(*crew.links, *[((),) * len(crew.header)] * len(longer))
    )
    left = [each.question for each in compose(comparisons, [mixed], WORDS, {"t0": 9})]
    assert any(name in each for name in names for each in asked)
    assert not any(name in each for name in names for each in left)


@pytest.mark.parametrize("header", ["Cptn", "Captain from", "Eliminated", "Conflict"])
def test_what_no_word_calls_an_entity_is_not_composed(header: str) -> None:
    crew = crews()
    headers = (crew.header[0], header, *crew.header[2:])
    assert list(compose(comparisons, [crew._replace(header=headers)], {*WORDS, "eliminated", "conflict", "from"})) == []


def test_what_the_table_states_by_itself_is_not_composed_from_passages() -> None:
    crew = crews()
    aged = crew._replace(
        header=(*crew.header, "Age"),
        rows=tuple((*row, "40") for row in crew.rows),
        links=tuple((*row, ()) for row in crew.links),
    )
    assert list(compose(comparisons, [aged], WORDS)) == []


def test_a_page_that_has_nothing_of_the_table_is_about_a_namesake() -> None:
    crew = crews()
    strange = {page: text.replace("A captain knows it.", "") for page, text in crew.passages.items()}
    assert list(compose(comparisons, [crew], WORDS))
    assert list(compose(comparisons, [crew._replace(passages=strange)], WORDS)) == []


def test_a_second_question_on_a_table_is_on_other_rows() -> None:
    found = list(compose(comparisons, [crews()], WORDS, {"t0": 2}))
    assert len(found) == 2 and not set(found[0].rows) & set(found[1].rows)


@pytest.mark.parametrize(
    ("asked", "changes"),
    [
        ({**IN_PASSAGE, "question": "When did the captain of Castor learn a trade ?"}, {}),  # "baker" is no date
        ({**IN_PASSAGE, "question": "What trade did he learn ?"}, {}),  # says of nobody who it is
        ({**IN_PASSAGE, "question": "What trade did the captain of Castor probably learn ?"}, {}),
        ({**IN_TABLE, "question": "Who is the captain from Lund ?", "answer": "Bo Dahl"}, {"is_ship": True}),
        (BRIDGED, {"header": ("Club", "Home town", "Captain", "Points")}),  # a port whose page is a person's
        (IN_TABLE, {"told": "Lund is a harbour with a famous windmill and a depth of 9 points."}),
        (IN_PASSAGE, {"page": "Cy Falk", "says": "Cy Falk was taught by Baker and Una Moe."}),
        (
            {**IN_PASSAGE, "question": "Which part of Europe is the captain of Castor from?"},
            {"page": "Cy Falk", "says": "Cy Falk is from Northern Europe, near the Baker Coast."},
        ),
        (
            {**IN_PASSAGE, "question": "What middle name has the captain of Castor?"},
            {"page": "Cy Falk", "says": "Cy Baker Falk (born Cy Una Moe) sails."},
        ),
        (
            {
                **IN_TABLE,
                "question": "Who is the captain of the crew from the harbour with a windmill?",
                "answer": "Bo Dahl",
            },
            {"page": "Eli Lind", "says": "Eli Lind became captain of Bravo in 2016."},
        ),
        (
            {**IN_PASSAGE, "question": "What is the setting of the play by the captain of Castor?"},
            {"page": "Cy Falk", "says": "Cy Falk wrote a play, based on days at Baker."},
        ),
        (
            {**IN_PASSAGE, "question": "How many staff has the captain of Castor?", "answer": "over 22"},
            {"page": "Cy Falk", "says": "Cy Falk has over 22 staff. The whole number of staff is 35."},
        ),
        (
            {**IN_PASSAGE, "question": "Which school is of the captain of Castor?"},
            {"page": "Cy Falk", "says": "Cy Falk went to Baker, then to Una Moe College."},
        ),
        (
            {**IN_PASSAGE, "question": "What is the nickname of the captain of Castor?"},
            {"page": "Cy Falk", "says": "Cy Falk, nicknamed Baker (also referred to as simply The Moe), sails."},
        ),
        (
            {**IN_PASSAGE, "question": "When was the captain of Castor hired?", "answer": "1994"},
            {"page": "Bergen", "says": "Bergen hired Cy Falk in 1995."},
        ),
        (
            {**IN_TABLE, "question": "What is the work of the captain born in 1953?"},
            {"page": "Bo Dahl", "says": "P. Bo Dahl (born May 2, 1953) won a prize for the film Rain."},
        ),
        ({**IN_PASSAGE, "answer": "R.V"}, {}),  # cut off: "R.V. Falk"
        ({**IN_PASSAGE, "answer": "B 1879"}, {}),  # a code
        (IN_PASSAGE, {"page": "Cy Falk", "says": "The page is a crew's.", "other": "Una Moe"}),  # not its cell's page
        (IN_PASSAGE, {"header": ("Club", "Captain", "Home port", "Year"), "year": "1954"}),  # born in 1956: a namesake
        (
            {**IN_TABLE, "question": "How many points has the submarine from the harbour with a windmill ?"},
            {"title": "Dutch submarine O-1 (1930)"},
        ),
    ],
)
def test_an_answer_of_another_kind_or_with_a_rival_is_left_out(asked: dict, changes: dict, tmp_path: Path) -> None:
    questions, tables = read_questions(source(tmp_path, [asked]))
    table = tables["t0"]
    if told := changes.get("told"):
        table = table._replace(
            header=(*table.header[:3], "Depth points"), passages={**table.passages, link("Lund"): told}
        )
        questions = [questions[0]._replace(text="What depth points has the crew from the harbour with a windmill?")]
    if changes.get("is_ship"):
        table = table._replace(passages={**table.passages, link("Bo Dahl"): "Bo Dahl is a ship. It was built in Lund."})
    if page := changes.get("page"):
        table = table._replace(passages={**table.passages, link(page): changes["says"]})
        questions = [questions[0]._replace(answer=questions[0].answer.replace("baker", "Baker"))]
    if other := changes.get("other"):
        table = table._replace(rows=tuple((row[0], other, *row[2:]) for row in table.rows))
    if year := changes.get("year"):
        table = table._replace(rows=tuple((*row[:3], year) for row in table.rows))
    table = table._replace(header=changes.get("header", table.header), title=changes.get("title", table.title))
    is_left_out = [
        hybridqa_evidence.is_of_another_kind(questions[0], table)
        or hybridqa_evidence.states_otherwise(questions[0], table)
    ]
    assert is_left_out == [True]
    assert hybridqa_evidence.find_evidence(questions[0], hybridqa_evidence.TableWords(table), 2) is None


def test_wordings_are_repaired_from_revision_2_on(tmp_path: Path) -> None:
    plain = question("w", "what year was the the tower built ?", "1871 built", 0)
    folder = source(tmp_path, [plain])
    for revision, expected in {
        1: ("what year was the the tower built?", "1871 built"),
        2: ("What year was the tower built?", "1871"),
    }.items():
        [read], _ = read_questions(folder, revision)
        assert (read.text, read.answer) == expected


def test_a_chain_asks_for_what_one_page_states_and_names_its_row_by_what_another_one_does(tmp_path: Path) -> None:
    _, tables = read_questions(source(tmp_path, [IN_PASSAGE]))
    told = {
        page: text.replace("founded by", f"founded in {1700 + n} by") + " A captain's port ."
        for n, (page, text) in enumerate(tables["t0"].passages.items())
    }
    [each] = compose(chains, [tables["t0"]._replace(passages=told)])
    [worded] = compose(chains, [tables["t0"]._replace(passages=told)], {*WORDS, "harbour"})
    assert worded.question.startswith("What is the ") and "Regatta" not in worded.question
    assert " listed with the " in worded.question
    [row] = each.rows
    assert each.links in {(link(PEOPLE[row]), link(PORTS[row])), (link(PORTS[row]), link(PEOPLE[row]))}
    known, asked = (told[page] for page in each.links)
    assert (
        mentions_name(asked, each.answer)
        and not mentions_name(known, each.answer)
        and f"{1950 + 3 * row}" in (each.answer, each.question[-5:-1])
    )


def test_the_subset_is_the_same_from_a_shuffled_source(tmp_path: Path) -> None:
    asked = [IN_PASSAGE, IN_TABLE, BRIDGED]
    once = table_text.make_instances(source(tmp_path / "a", asked, tables=12))
    again = table_text.make_instances(source(tmp_path / "b", asked, tables=12, shuffled=3))
    pool = once.pools["table_text"]
    assert (once.instances, pool.to_rows()) == (again.instances, again.pools["table_text"].to_rows())
    for each in once.instances:
        shown = [" ".join(pool.text[n]) for n in each.positive_text] + [
            " ".join(pool.sk[each.group][n]) for n in each.positive_sk
        ]
        assert any(mentions_name(unit, each.answers[0]) for unit in shown)
        assert set(each.positive_text) <= set(each.own_text) and each.split_key == each.group
        emptied = pool.sk[each.noise_groups[-1]]
        assert len(emptied) == len(pool.sk[each.group]) and not any(
            mentions_name(" ".join(row), each.answers[0]) for row in emptied
        )


def test_questions_whose_row_may_not_be_needed_wait_for_review_and_no_other_does(tmp_path: Path) -> None:
    points = "What trade did the captain from the harbour with a fortress , who has 61 points , learn ?"
    folder = source(tmp_path, [BRIDGED, {**BRIDGED, "id": "p", "question": points}], tables=12)
    stored = [table(f"t{n}") for n in range(12)]
    for each in stored[3::4]:
        each["passages"][link("Di Holm")] += " Di Holm is of Rostock ."
    with gzip.open(folder / TABLES, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(each) + "\n" for each in stored)
    made = table_text.make_instances(folder).instances
    split_of = {each.id: each.split for each in made}
    assert len(split_of) == len(made) and {*split_of.values()} == {"test", "unreviewed"}
    assert all((split == "unreviewed") == (int(name[10:]) % 4 == 3) for name, split in split_of.items())


@pytest.mark.parametrize("revision", [1, 2])
def test_as_many_questions_are_composed_and_found_by_words_as_their_shares_allow(
    revision: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evidence(name: str, method: str = "trace", by_cells: bool = False) -> hybridqa_evidence.QuestionEvidence:
        return hybridqa_evidence.QuestionEvidence(name, "?", "a", (), name, (0,), (), (), method, by_cells)

    def composed(method: object, tables: list[LinkedTable], *_: object) -> list[hybridqa_evidence.QuestionEvidence]:
        return [evidence(f"{method.__name__} {n}", "composed") for n in range(99)]  # type: ignore[attr-defined]

    monkeypatch.setattr(table_text, "compose", composed)
    people = [evidence(f"{by_cells} {n}", by_cells=by_cells) for n in range(40) for by_cells in (True, False)]
    made = list(table_text._add_composed(people, [], WORDS if revision > 1 else None, {}))
    kinds = Counter(each.id.split()[0] for each in made)
    assert kinds["False"] == 40 and len({each.id for each in made}) == len(made)
    shares = {"True": 0.3, "comparisons": 0.17, "chains": 0.1 if revision > 1 else 0.05}
    for kind, share in shares.items():
        assert kinds[kind] == pytest.approx(share * len(made), abs=1.5), kind


def test_people_that_an_answer_lists_are_answers_each(tmp_path: Path) -> None:
    taught = "Who taught the captain from the harbour with a fortress ?"
    asked = {**BRIDGED, "question": taught, "answer": "Una Moe and Ida Krog"}
    source(tmp_path / "a", [asked], tables=12)
    stored = [table(f"t{n}") for n in range(12)]
    for each in stored:
        each["passages"][link("Di Holm")] += " Una Moe and Ida Krog taught him ."
    with gzip.open(tmp_path / "a" / TABLES, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(each) + "\n" for each in stored)
    found = [each for each in table_text.make_instances(tmp_path / "a").instances if each.method != "composed"]
    assert found and {each.answers for each in found} == {("Una Moe", "Ida Krog")}


def test_an_answer_in_many_words_nobody_writes_in_just_that_way(tmp_path: Path) -> None:
    asked = {**IN_PASSAGE, "answer": "( born May 3 , 1956 ) was trained as a baker"}
    assert found(tmp_path / "a", {**asked, "answer": "trained as a baker"}) and not found(tmp_path / "b", asked)
    assert found(tmp_path / "c", {**asked, "answer": "1956 ) was trained as a baker"})  # six words
    assert not found(tmp_path / "d", {**asked, "answer": "3 , 1956 ) was trained as a baker"})


def test_an_absent_source_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=TABLES):
        table_text.make_instances(tmp_path)


def test_the_weight_of_words_does_not_depend_on_their_order() -> None:
    weights = WordWeights([" ".join(f"word{n}x" for n in range(start, 7)) for start in range(7)])
    words = [f"word{n}x" for n in range(7)]
    assert len({weights.sum(words[n:] + words[:n]) for n in range(7)}) == 1


def numbers_of_two(change: dict[str, str], cell: str = "9") -> list[tuple[str, str]]:
    """Return the pairs of numbers of a row, whose page of a person names a birth, and that of a town its population."""
    passages = {"/wiki/Ann": "Ann ( born 2 May 1950 ) sails .", "/wiki/Lund": "Lund has a population of 3,000 ."}
    passages |= {"/wiki/Bo": "Bo sails ."} | change
    links = ((("/wiki/Ann",), ("/wiki/Lund",), ()), (("/wiki/Bo",), (), ()))
    rows = (("Ann", "Lund", cell), ("Bo", "Oslo", "8"))
    told = {page: join_tokens(text) for page, text in passages.items()}
    named = LinkedTable("t", "Crews", "Of 1990", ("Captain", "Port", "Points"), rows, links, told)
    return [(known.stated, asked.stated) for _, known, _, asked in hybridqa.number_pairs(named)]


def test_a_number_identifies_a_row_or_is_asked_for_where_nothing_else_states_it() -> None:
    assert numbers_of_two({}) == [("1950", "3,000"), ("3,000", "1950")]
    assert numbers_of_two({"/wiki/Bo": "Bo sails since 1950 ."}) == [("3,000", "1950")]  # it identifies no row then
    assert numbers_of_two({}, cell="1950") == []  # identifies nothing, and need not be asked for
    assert numbers_of_two({}, cell="3,000") == []
    assert numbers_of_two({"/wiki/Ann": "Ann ( born 2 May 1950 ) sails near Lund ."}) == []
    assert numbers_of_two({"/wiki/Lund": "Lund has a population of 3,000 , and a population of 4,000 ."}) == []


def test_only_people_have_a_club_of_their_own() -> None:
    crew = crews()
    [numbers] = hybridqa.stated_numbers(crew).values()
    for kind, is_own in ((hybridqa.BORN, True), (hybridqa.NUMBER_KINDS[1], False)):
        names = table_text._row_names(crew, numbers[0], WORDS, kind)
        assert any(name.startswith("whose club is") for name in names) == is_own
