"""A benchmark for one's own ontology: what the release's rows, taken apart, become again, and what never happens."""

import csv
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbbench_hf.building.own_extraction.alignment import align, relation_cue
from kbbench_hf.building.own_extraction.dataset import TokenOverlap, add_similar_ids, build_own_extraction
from kbbench_hf.building.own_extraction.inputs import (
    Relations,
    read_own_ontology,
    read_sentences,
    read_triples,
)
from kbbench_hf.building.own_extraction.splits import select_rows, split_by_group, split_by_subject, swap_entities
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import DatasetFolder

WEBNLG = {
    "university": 1, "musicalwork": 2, "airport": 3, "building": 4, "athlete": 5, "politician": 6, "company": 7,
    "celestialbody": 8, "astronaut": 9, "comicscharacter": 10, "meanoftransportation": 11, "monument": 12, "food": 13,
    "writtenwork": 14, "sportsteam": 15, "city": 16, "artist": 17, "scientist": 18, "film": 19,
}  # fmt: skip


def jsonl(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def triple(sub: str, rel: str = "guards", obj: str = "B") -> dict:
    return {"sub": sub, "rel": rel, "obj": obj, "sub_id": None, "rel_id": None, "obj_id": None}


def row(name: str, sentence: str, *triples: dict) -> dict:
    grades = ["relation_cued"] * len(triples)
    return {"id": name, "sentence": sentence, "triples": [*triples], "grades": grades, "split": "", "origin": "aligned"}


@pytest.mark.parametrize("name", WEBNLG)
def test_webnlgs_split_is_the_releases_for_every_row(shared, name):
    """The release keeps the order inside each split, not between them: every order that it allows is walked."""
    half, name = shared / "data/text2kgbench/dbpedia_webnlg", f"{WEBNLG[name]}_{name}"
    released = {
        "train": jsonl(half / f"train/ont_{name}_train.jsonl"),
        "test": jsonl(half / f"ground_truth/ont_{name}_ground_truth.jsonl"),
    }
    subjects = {split: [{each["sub"] for each in row["triples"]} for row in rows] for split, rows in released.items()}
    order = _an_order(subjects["train"], subjects["test"])
    assert len(order) == sum(map(len, released.values()))
    taken = {split: iter(of) for split, of in subjects.items()}
    assert split_by_subject([next(taken[split]) for split in order]) == order


def _an_order(train: list[set[str]], test: list[set[str]]) -> list[str]:
    """Return an order of both in which the notebook's rule puts each row where it is; the longest start of one."""
    waiting: list[tuple[int, int, tuple]] = [(0, 0, ())]
    seen, best = set(), ()
    of_train, of_test = ([set().union(*rows[:n]) for n in range(len(rows) + 1)] for rows in (train, test))
    while waiting:
        i, j, path = waiting.pop()
        if i + j == len(train) + len(test):
            best = path
            break
        for here, part, step in ((i, train, "train"), (j, test, "test")):
            if here == len(part):
                continue
            found = part[here]
            to_test = bool(found & of_test[j]) or (j < 2 * len(of_train[i]) and not found & of_train[i])
            then = (i + (step == "train"), j + (step == "test"))
            if to_test == (step == "test") and then not in seen:
                seen.add(then)
                waiting.append((*then, (path, step)))
    steps = []
    while best:
        best, step = best
        steps.append(step)
    return steps[::-1]


@pytest.mark.parametrize("name", ["10_culture", "12_monument"])
def test_released_rows_come_back_through_the_door_of_ones_own(shared, in_tmp, name):
    assert came_back(shared / "data/text2kgbench", name, in_tmp) == []


def came_back(release: Path, name: str, place: Path) -> list[str]:
    """Build an ontology's released rows as a user would; return the ids of those that differ or are not there."""
    half = next(part for part in release.iterdir() if (part / f"ontologies/{name}_ontology.json").is_file())
    rows: dict[str, tuple[str, str, set]] = {}
    for split, folder in (("train", "train"), ("validation", "validation"), ("test", "ground_truth")):
        file = half / folder / f"ont_{name}_{'ground_truth' if split == 'test' else split}.jsonl"
        for each in jsonl(file) if file.is_file() else ():
            one = {part: each.get(f"{part}_label") for part in ("sub", "rel", "obj")}
            stated = each.get("triples", [one])
            said = {tuple(t[part].strip() for part in ("sub", "rel", "obj")) for t in stated}
            if said:
                rows[each["id"]] = (split, each["sent"], said)
    _write(place / "s.csv", ["id", "sentence", "split"], [(name, row[1], row[0]) for name, row in rows.items()])
    pairs = [(name, *each) for name, row in rows.items() for each in sorted(row[2])]
    _write(place / "p.csv", ["id", "subject", "relation", "object"], pairs)
    ontology = half / f"ontologies/owl/ont_{name}.ttl"
    build_own_extraction("mine", ontology, None, place / "s.csv", place / "p.csv", place / "mine")
    folder = DatasetFolder(place / "mine")
    built = {
        row["id"]: (row["split"], row["sentence"], {(t["sub"], t["rel"], t["obj"]) for t in row["triples"]})
        for split in {split for split, _, _ in rows.values()}
        for row in folder.rows("sentences", split)
    }
    return [name for name, row in rows.items() if built.get(name) != row]


def _write(file: Path, header: list[str], rows) -> None:
    with file.open("w", encoding="utf-8", newline="") as sink:
        csv.writer(sink).writerows([header, *rows])


def test_the_turtle_of_the_release_reads_as_its_json(shared):
    half = shared / "data/text2kgbench/dbpedia_webnlg/ontologies"
    for name in ("3_airport", "19_film"):
        ours = read_own_ontology(half / f"owl/ont_{name}.ttl", name).row
        theirs = json.loads((half / f"{name}_ontology.json").read_text())
        assert {(each["label"], each["domain"]) for each in ours["relations"]} == {
            (each["label"], each["domain"]) for each in theirs["relations"]
        }


names = st.sampled_from([f"entity {letter}" for letter in "abcdefgh"])
facts = st.builds(triple, names, st.sampled_from(["guards", "keeps"]), names)
texts = st.sampled_from([f"Sentence {n}." for n in range(12)])


@given(st.lists(st.tuples(texts, st.lists(facts, min_size=1, max_size=3)), min_size=1, max_size=30), st.integers(0, 5))
@settings(max_examples=60)
def test_no_sentence_and_no_triple_stands_on_two_sides_in_any_order(drawn, seed):
    rows = [row(f"r{n}", text, *triples) for n, (text, triples) in enumerate(drawn)]
    splits = split_by_group(rows, seed)
    sides: dict[object, set[str]] = {}
    for each, split in zip(rows, splits, strict=True):
        said = [(t["sub"], t["rel"], t["obj"]) for t in each["triples"]]
        for mark in (each["sentence"], *said):
            sides.setdefault(mark, set()).add(split)
    assert all(len(found) == 1 for found in sides.values())
    turned = split_by_group(rows[::-1], seed)[::-1]
    assert turned == splits


def test_splits_have_their_shares_of_every_relation_where_nothing_hangs_together():
    rows = [row(f"r{n}", f"Sentence {n}.", triple(f"a{n}", f"r{n % 4}", f"b{n}")) for n in range(400)]
    counts = Counter(
        (each["triples"][0]["rel"], split) for each, split in zip(rows, split_by_group(rows, 0), strict=True)
    )
    assert counts == {(f"r{k}", s): n for k in range(4) for s, n in (("train", 40), ("validation", 30), ("test", 30))}


def test_a_name_inside_a_longer_one_is_no_mention():
    known = [triple("Rome"), triple("Rome Opera"), triple("Austin, Texas", "isPartOf", "Texas"), triple("Rome", "part")]
    assert [each.triple for each in align(["Rome Opera guards B."], known)[0]] == [1]
    assert [each.triple for each in align(["Rome, not Rome Opera, guards B."], known)[0]] == [0, 1, 3]
    assert [each.triple for each in align(["They live in Austin, Texas."], known)[0]] == [2]


@pytest.mark.parametrize(
    ("sentence", "relation", "cue"),
    [
        ("It was authored by Ann.", "author", "authored"),
        ("Its creator is Ann.", "createdBy", "creator"),
        ("Built in 1901.", "builtIn", "Built"),
        ("Ann was born in Rome.", "birthPlace", ""),
        ("The Directors Guild met.", "director", "Directors"),
    ],
)
def test_a_word_of_the_relation_is_found_in_its_forms(sentence, relation, cue):
    assert relation_cue(sentence, relation) == cue


UNSPACED = [
    ("青山灯塔守护着青山港。", [("青山灯塔", "守护", "青山港"), ("青山", "守护", "青山港")], [(0, "relation_cued")]),
    ("北京大学位于海淀区", [("北京大学", "面积", "海淀区"), ("北京", "位于", "海淀区")], [(0, "both_verbatim")]),
    ("古屋位于名山之城", [("名古屋", "位于", "山城")], []),  # all characters, but not in a row
    ("夏目漱石は『坊っちゃん』の著者である。", [("坊っちゃん", "著者", "夏目漱石")], [(0, "relation_cued")]),
    ("アンドロイドは東京にいる。", [("アン", "所在地", "東京")], []),  # katakana is cut at its ends alone
    ("김철수는 서울에서 태어났다.", [("김철수", "출생지", "서울")], [(0, "both_verbatim")]),
    (
        "서울대학교는 관악구에 위치한다.",
        [("서울", "위치", "관악구"), ("서울대학교", "위치", "관악구")],
        [(1, "relation_cued")],
    ),
    ("วัดโพธิ์ตั้งอยู่ในกรุงเทพ", [("วัดโพธิ์", "ตั้งอยู่ใน", "กรุงเทพ")], [(0, "relation_cued")]),
    ("iPhone手机由苹果公司生产。", [("iPhone", "生产商", "苹果公司")], [(0, "relation_cued")]),
]


@pytest.mark.parametrize(("sentence", "triples", "expected"), UNSPACED)
def test_names_are_found_in_sentences_without_blanks(sentence, triples, expected):
    rows = [dict(zip(("sub", "rel", "obj"), each, strict=True)) for each in triples]
    assert [(*each,) for each in align([sentence], rows)[0]] == expected


@pytest.mark.parametrize(
    ("sentence", "name"),
    [
        ("Kiki is an Italian film.", "Italy"),
        ("Kiki was shot in Italy.", "Italian"),
        ("Kiki opened on 12 May 1997.", "1997-05-12"),
        ("Kiki is 1.5 km long.", "1500 metres"),
        ("Kiki joined the UN.", "United Nations"),
        ("Kiki left the USA.", "United States of America"),
        ("Kiki joined FaceBook.", "Face Book"),
        ("Kiki joined Face Book.", "Facebook"),
        ("Kiki guards the lighthouses.", "lighthouse"),
    ],
)
def test_an_entity_is_looked_for_in_each_form_in_which_a_sentence_may_name_it(sentence, name):
    assert [each.triple for each in align([sentence, "Kiki rests."], [triple("Kiki", "r", name)])[0]] == [0]


def test_an_end_is_also_mentioned_by_its_further_names():
    known = [triple("Kiki", "directed by", "Miyazaki")]
    names = {"Miyazaki": ["Old Hayao"], "Kiki": ["The Courier"]}
    sentences = ["The Courier was directed by Old Hayao.", "The Courier was directed by Miyazaki.", "The Courier."]
    assert [[each.triple for each in found] for found in align(sentences, known, names)] == [[0], [0], []]
    assert align(sentences, known) == [[], [], []]


@pytest.mark.parametrize(
    ("sentence", "grade", "remedy"),
    [
        ("B and A are far away.", "relation_cued", "or lower --min-grade to both_verbatim"),
        ("Nothing to say.", "mentioned", "or write the names as the sentences do"),
    ],
)
def test_sentences_without_triples_are_refused_with_a_remedy_that_helps(in_tmp, sentence, grade, remedy):
    Path("o.ttl").write_text(
        "@prefix owl: <http://www.w3.org/2002/07/owl#> . @prefix : <http://x/> . :guards a owl:ObjectProperty ."
    )
    Path("t.csv").write_text("subject,relation,object\nA,guards,B\n")
    Path("s.txt").write_text(sentence)
    files = Path("o.ttl"), Path("t.csv"), Path("s.txt"), None, Path("out")
    with pytest.raises(DataError, match=f"at grade {grade}. Give the triples of each sentence with --pairs, {remedy}"):
        build_own_extraction("own", *files, min_grade=grade)


def test_similar_sentences_are_the_nearest_that_show_no_gold():
    class Angles:
        """Vectors at the angle that the last word of a sentence has in degrees."""

        name = "angles"

        def encode(self, texts):
            angles = np.radians([float(text.split()[-1]) for text in texts])
            return np.stack([np.cos(angles), np.sin(angles)], axis=1) * 7

    near = [("a", 50), ("b", 10), ("c", 30), ("d", 30), ("e", 80), ("f", 20), ("g", 90)]
    train = [row(name, f"{name} at {angle}", triple(name)) for name, angle in near]
    train += [
        row("gold", "gold at 0", triple("x")),
        row("same", "x at 0", triple("y")),
        row("x", "me at 0", triple("z")),
    ]
    (test,) = rows = [row("x", "X at 0", triple("X"))]
    add_similar_ids(rows, train, Angles())
    assert test["similar_ids"] == ["b", "f", "c", "d", "a"]
    add_similar_ids(rows, [], Angles())
    assert test["similar_ids"] == ["b", "f", "c", "d", "a"]
    words = TokenOverlap(["the light", "the port"]).encode(["The light!", "the", ""])
    assert words.shape == (3, 4096) and np.count_nonzero(words, axis=1).tolist() == [2, 1, 0]
    rare, common = sorted(words[0][words[0] > 0], reverse=True)
    assert rare == pytest.approx(np.log(4 / 2)) and common == pytest.approx(np.log(4 / 3)) == words[1].max()


HARBOR = (
    "@prefix owl: <http://www.w3.org/2002/07/owl#> . @prefix : <http://x/> . :lies_in a owl:ObjectProperty . "
    ":guards a owl:ObjectProperty ; <http://www.w3.org/2000/01/rdf-schema#domain> :Light ."
)


@pytest.mark.parametrize(
    ("options", "splits", "facts"),
    [
        (
            {},
            {
                "train": ["s2", "s6", "s8"],
                "validation": ["s1", "s3", "s4"],
                "test": ["s5 selected", "s7 selected"],
                "unseen": ["Light A guards Port E.", "Light D guards Port A."],
            },
            [
                "11 sentences; 3 sentences without a triple; 0 sentences over the limit of their relations; 9 triples.",
                "Left out as too weak: 2 `both_verbatim` triples. `--min-grade` takes them in.",
                "Split by groups that share a sentence or a triple, seed 0.",
                "2 test sentences are `selected`, by grades.",
            ],
        ),
        (
            {"split_by": "subject", "min_grade": "mentioned", "seed": 7},
            {
                "train": ["s1", "s4", "s7", "s10"],
                "test": ["s2 selected", "s3 selected", "s5 selected", "s6 selected", "s8 selected", "s11"],
                "unseen": None,
            },
            [
                "11 sentences; 1 sentences without a triple; 0 sentences over the limit of their relations; 9 triples.",
                "| `both_verbatim`: the sentence has subject and object word for word | 2 |",
                "Split by subject, as DBpedia-WebNLG, seed 7.",
                "5 test sentences are `selected`, by grades.",
            ],
        ),
    ],
)
def test_aligned_sentences_are_split_and_selected_as_the_options_say(in_tmp, options, splits, facts):
    pairs = [(f"Light {letter}", f"Port {letter}") for letter in "ABCDEFGH"]
    Path("o.ttl").write_text(HARBOR)
    _write(Path("t.csv"), ["subject", "relation", "object"], [(one, "guards", other) for one, other in pairs])
    with Path("t.csv").open("a") as sink:
        sink.write("Light A,lies in,Port Z\n")
    sentences = [f"{one} guards {other}." for one, other in pairs]
    sentences += ["Light A guards Port A.", "Light A is near Port A.", "Light B and Port B."]
    Path("s.txt").write_text("\n".join(sentences))
    build_own_extraction("own", Path("o.ttl"), Path("t.csv"), Path("s.txt"), None, Path("out"), **options)
    folder = DatasetFolder(Path("out"))
    rows = {split: folder.rows("sentences", split) for split in folder.configs()["sentences"]}
    assert [*rows] == [*splits]
    for split, expected in splits.items():
        of_split = rows[split]
        shown = [
            row["sentence"] if split == "unseen" else row["id"] + " selected" * row["selected"] for row in of_split
        ]
        assert expected is None or shown == expected
        assert {row["origin"] for row in of_split} == {"swapped" if split == "unseen" else "aligned"}
        for row in of_split:
            assert split == "unseen" or row["sentence"] == sentences[int(row["id"][1:]) - 1]
            (fact,) = row["triples"]
            assert fact["sub"] in row["sentence"] and fact["obj"] in row["sentence"] and fact["rel"] == "guards"
            weak = "guards" not in row["sentence"]
            assert row["grades"] == ["both_verbatim" if weak else "relation_cued"]
            assert row["triples_repaired"] == row["triples"] and row["repairs"] == []
            similar = [] if split == "train" else rows["train"]
            assert {*row["similar_ids"]} == {each["id"] for each in similar}
    card = Path("out/README.md").read_text()
    for fact in [*facts, "1 sentences occur twice and are used once.", "- Gold, written as an answer: F1 1.000"]:
        assert fact in card


def test_notes_of_a_build_are_on_its_card(in_tmp):
    concepts = [{"qid": qid, "label": "x"} for qid in ("Q1", "Q2")]
    relations = [
        {"pid": "P1", "label": "guards", "domain": "Q1", "range": "Q9"},
        {"pid": "P2", "label": "height", "domain": "", "range": "number"},
    ]
    Path("o.json").write_text(json.dumps({"title": "T", "concepts": concepts, "relations": relations}))
    shared = json.dumps([["A", "guards", "B"]])
    rows = [(f"x{n}", f"{n}: A guards B.", shared) for n in range(4)]
    rows += [(f"y{n}", f"C{n} guards D{n}.", json.dumps([[f"C{n}", "guards", f"D{n}"]])) for n in range(3)]
    _write(Path("s.csv"), ["id", "sentence", "triples"], rows)
    build_own_extraction("own", Path("o.json"), None, Path("s.csv"), None, Path("out"))
    folder, card = DatasetFolder(Path("out")), Path("out/README.md").read_text()
    assert [row["id"] for row in folder.rows("sentences", "train")] == [f"x{n}" for n in range(4)]
    for note in (
        "57% of the rows hang together by shared sentences and triples, and are in one split",
        "Domains and ranges that are neither concepts nor kinds of literals: 'Q9'.",
        "1 labels are of several concepts: 'x'.",
        "| `given`: given with the sentence | 7 |",
    ):
        assert note in card


def test_flags_of_rows_are_counted_on_the_card_in_one_order(in_tmp):
    Path("o.ttl").write_text(HARBOR)
    texts = [("A guards B.", "train"), ("A guards B.", "train"), ("So A guards B.", "test"), ("So A guards B.", "test")]
    shared = json.dumps([["A", "guards", "B"]])
    rows = [(f"s{n}", text, shared, split) for n, (text, split) in enumerate(texts)]
    rows.append(("s4", "CafÃ© guards D.", json.dumps([["CafÃ©", "guards", "D"]]), "test"))
    _write(Path("s.csv"), ["id", "sentence", "triples", "split"], rows)
    build_own_extraction("own", Path("o.ttl"), None, Path("s.csv"), None, Path("out"))
    card, folder = Path("out/README.md").read_text(), DatasetFolder(Path("out"))
    flags = ["`fact_in_train`: 2 rows of test.", "`mojibake`: 1 rows of test.", "`repeated_sentence`: 1 rows of test."]
    assert "\n".join(f"- {each}" for each in [*flags, "`repeated_sentence`: 1 rows of train."]) in card
    found = {
        row["id"]: [(each["kind"], each["detail"]) for each in row["repairs"]]
        for row in folder.rows("sentences", "test")
    }
    assert found == {
        "s2": [("fact_in_train", "")],
        "s3": [("repeated_sentence", "s2"), ("fact_in_train", "")],
        "s4": [("mojibake", "Café guards D.")],
    }


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["test", ""], "Sentence 's1' has the split ''; expected one of train, validation, test, unseen"),
        (["dev", "test"], "Sentence 's0' has the split 'dev'; expected one of"),
        (["train", "validation"], "No sentence of s.csv is in a test split"),
    ],
)
def test_splits_that_are_given_are_for_all_sentences_and_have_a_test(in_tmp, cells, message):
    Path("o.ttl").write_text(HARBOR)
    rows = [(f"s{n}", f"A{n} guards B.", json.dumps([[f"A{n}", "guards", "B"]]), cell) for n, cell in enumerate(cells)]
    _write(Path("s.csv"), ["id", "sentence", "triples", "split"], rows)
    with pytest.raises(DataError, match=message):
        build_own_extraction("own", Path("o.ttl"), None, Path("s.csv"), None, Path("out"))


def test_crowded_entities_go_to_the_back_and_rare_relations_out():
    crowd = [row(f"c{n}", f"C {n}.", triple("Hub", "guards", f"b{n}")) for n in range(190)]
    others = [row(f"o{n}", f"O {n}.", triple(f"a{n}", "guards", f"d{n}")) for n in range(190)]
    rare = [row("x", "X.", triple("a", "once", "b"))]
    kept, dropped = select_rows([*crowd, *others, *rare])
    assert dropped == {"once": 1}
    chosen = [each["id"] for each in kept]
    assert len(chosen) == 200
    assert {f"o{n}" for n in range(180)} <= {*chosen}  # the hub's first 20 and 180 others
    assert sum(each.startswith("c") for each in chosen) == 20


def test_swapped_sentences_say_what_no_triple_says_and_keep_no_old_name():
    known = [triple(f"Light {letter}", "guards", f"Port {letter}") for letter in "ABCDEF"]
    rows = [
        {**row(f"r{n}", f"The {each['sub']} guards {each['obj']}.", each), "grades": ["relation_cued"]}
        for n, each in enumerate(known)
    ]
    rows.append(row("pronoun", "Light A guards Port A, and it shines.", known[0]))
    rows.append(row("third", "Light A guards Port A near Port B.", known[0]))
    made = swap_entities(rows, known, seed=1)
    assert len(made) == 6
    assert made == swap_entities(rows, known, seed=1)
    assert all(len({each["sentence"] for each in swap_entities(rows, known, seed)}) == 6 for seed in range(9))
    facts = {(each["sub"], each["obj"]) for each in known}
    for each in made:
        (new,) = each["triples"]
        assert (new["sub"], new["obj"]) not in facts
        assert each["sentence"] == f"The {new['sub']} guards {new['obj']}."


TURTLE = """
@prefix owl: <http://www.w3.org/2002/07/owl#> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> . @prefix : <http://example.org/a#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> . @prefix schema: <https://schema.org/> .
:Work a owl:Class . :Film a owl:Class ; rdfs:subClassOf :Work , [ a owl:Restriction ] .
:madeBy a owl:ObjectProperty ; rdfs:domain :Work ; rdfs:range [ owl:unionOf ( :Film :Studio ) ] ;
  skos:altLabel "creator" .
:directedBy a owl:ObjectProperty ; rdfs:subPropertyOf :madeBy ; rdfs:label "Regie"@de , "directed by"@en .
:old a owl:ObjectProperty ; owl:deprecated true .
:note a owl:AnnotationProperty .
:length a owl:DatatypeProperty ; rdfs:range xsd:decimal .
:about a <http://www.w3.org/1999/02/22-rdf-syntax-ns#Property> ;
  schema:domainIncludes :Film ; schema:rangeIncludes schema:Text .
:linked a owl:ObjectProperty ; rdfs:domain [ owl:unionOf ( :Film :Studio :Work ) ] ;
  rdfs:range [ owl:unionOf ( :Film :Studio :Work ) ] .
"""


def test_what_owl_and_rdfs_say_of_a_property_is_read(tmp_path):
    (tmp_path / "o.ttl").write_text(TURTLE)
    found = read_own_ontology(tmp_path / "o.ttl", "films")
    signatures = {(each["label"], each["domain"], each["range"]) for each in found.row["relations"]}
    assert signatures == {
        ("made by", "Work", "Film"),
        ("made by", "Work", "Studio"),
        ("directed by", "Work", "Film"),  # of the property above it
        ("directed by", "Work", "Studio"),
        ("length", "", "number"),
        ("about", "Film", "string"),
        ("linked", "", ""),  # nine pairs are too many
    }
    concepts = {each["qid"]: each["subclass_of"] for each in found.row["concepts"]}
    assert concepts == {"Film": ["Work"], "Work": [], "Studio": []}
    assert found.relation_names["made by"] == ["creator"]
    assert "'old'" in found.notes[0] and "'linked' goes from 3 to 3 kinds" in found.notes[1]


FACTS = """
@prefix : <http://example.org/a#> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> . @prefix d: <http://example.org/things/> .
d:f1 rdfs:label "The Long Night"@en ; skos:altLabel "Longa Nokto" ; :directedBy d:Ann_Court ; :length 93.5 ; :old d:x .
d:f1 :directedBy _:nobody .
"""


def test_triples_in_rdf_bring_the_other_names_of_their_entities(tmp_path):
    (tmp_path / "o.ttl").write_text(TURTLE)
    (tmp_path / "t.ttl").write_text(FACTS)
    relations = Relations(read_own_ontology(tmp_path / "o.ttl", "films"))
    found = read_triples(tmp_path / "t.ttl", relations)
    said = {(each["sub"], each["rel"], each["obj"]) for each in found.rows}
    assert said == {("The Long Night", "directed by", "Ann Court"), ("The Long Night", "length", "93.5")}
    assert relations.unknown["http://example.org/a#old"] == 1  # deprecated
    (aligned,) = align(["Longa Nokto was directed by Ann Court."], found.rows, found.names)
    assert [found.rows[each.triple]["rel"] for each in aligned] == ["directed by"]


def test_further_names_of_a_relation_are_cues_for_it():
    triples, text = [triple("Ann Court", "zq", "Rome")], ["Ann Court painted Rome."]
    assert [each.grade for each in align(text, triples)[0]] == ["both_verbatim"]
    assert [each.grade for each in align(text, triples, {}, {"zq": ["painted"]})[0]] == ["relation_cued"]


def test_triples_in_a_column_of_the_sentences_are_taken_as_they_are(tmp_path):
    (tmp_path / "o.ttl").write_text(TURTLE)
    listed = json.dumps([["A", "directedBy", "B"], ["A", "sold by", "C"]])
    _write(
        tmp_path / "s.csv",
        ["id", "sentence", "triples", "selected"],
        [("a", "One.", listed, "yes"), ("b", "Two.", "", "")],
    )
    relations = Relations(read_own_ontology(tmp_path / "o.ttl", "films"))
    first, second = read_sentences(tmp_path / "s.csv", relations)
    assert [(each["sub"], each["rel"], each["obj"]) for each in first.triples] == [("A", "directed by", "B")]
    assert (first.selected, second.triples, relations.unknown) == (True, None, {"sold by": 1})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("o.ttl", "@prefix : <", "cannot be read as turtle"),
        ("o.owl", "<?xml version='1.0'?><rdf:RDF>", "cannot be read as xml"),
        ("o.ofn", "Prefix(:=<http://a#>)\nOntology()", "functional or Manchester syntax"),
        ("o.json", '{"concepts": [], "relations": [{"pid": 1}]}', "Expected title, concepts"),
        ("o.jsonld", '{"@context": "https://schema.org"}', "is an address, which is not fetched"),
        ("o.ttl", "<a:b> <a:c> <a:d> .", "has no relation"),
    ],
)
def test_an_ontology_that_is_none_is_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        read_own_ontology(tmp_path / name, "o")


def test_an_ontology_in_the_releases_json_has_each_part_once_and_its_labels_without_blanks(tmp_path):
    relation = {"pid": "P1", "label": "lies in", "domain": "Q1", "range": "Q1"}
    parts = {"concepts": [{"qid": "Q1", "label": "town "}], "relations": [relation, relation]}
    (tmp_path / "o.json").write_text(json.dumps(parts))
    found = read_own_ontology(tmp_path / "o.json", "towns")
    assert (found.row["title"], found.row["concepts"][0]["label"], found.relations) == ("towns", "town", ["lies in"])
    assert len(found.row["relations"]) == 1 and found.notes == ["Blanks around 1 labels were taken off: 'town '."]
    assert Relations(found).find("P1") == Relations(found).find("Lies in") == "lies in"


def test_of_a_large_ontology_what_triples_use_and_the_most_general_are_kept(tmp_path):
    concepts = "".join(f":c{n:03} a owl:Class ; rdfs:subClassOf :c{n // 2:03} . " for n in range(150))
    relations = "".join(f":r{n} a owl:ObjectProperty ; rdfs:domain :c149 . " for n in range(101))
    (tmp_path / "o.ttl").write_text(
        "@prefix owl: <http://www.w3.org/2002/07/owl#> . @prefix : <http://x/> . "
        f"@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . {concepts}{relations}"
    )
    found = read_own_ontology(tmp_path / "o.ttl", "large")
    found.fit({"r7"})
    kept = {each["qid"]: each["subclass_of"] for each in found.row["concepts"]}
    assert found.relations == ["r7"] and kept.keys() == {*(f"c{n:03}" for n in range(99)), "c149"}
    assert (kept["c149"], kept["c098"]) == (["c074"], ["c049"])


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ('a,One.,"[[""A"", ""directedBy"", ""B""]]",maybe', "row 1: selected 'maybe'; expected true or false"),
        ('a,One.,"[[""A"", ""directedBy""]]",', "row 1: triples .*; expected a JSON list"),
        ('a,One.,"[["""", ""directedBy"", ""B""]]",', "row 1: no subject"),
        ("a,One.,,\na,Two.,,", "sentence 'a' occurs twice"),
    ],
)
def test_a_malformed_table_of_sentences_is_refused_by_row(tmp_path, cells, message):
    (tmp_path / "o.ttl").write_text(TURTLE)
    (tmp_path / "s.csv").write_text(f"id,sentence,triples,selected\n{cells}\n")
    with pytest.raises(DataError, match=message):
        read_sentences(tmp_path / "s.csv", Relations(read_own_ontology(tmp_path / "o.ttl", "films")))


def test_the_card_names_the_five_commonest_relations_that_the_ontology_lacks(in_tmp):
    (in_tmp / "o.ttl").write_text(TURTLE)
    unknown = [["A", f"r{n}", "B"] for n in range(7) for _ in range(9 - n)]
    rows = [(n, f"{n} is by B.", json.dumps([[str(n), "directedBy", "B"], *unknown]), "test") for n in range(2)]
    _write(in_tmp / "s.csv", ["id", "sentence", "triples", "split"], rows)
    build_own_extraction("films", in_tmp / "o.ttl", None, in_tmp / "s.csv", None, in_tmp / "out")
    named = "'r0' (18), 'r1' (16), 'r2' (14), 'r3' (12), 'r4' (10) and 2 more"
    card = (in_tmp / "out/README.md").read_text()
    assert f"Triples of relations that the ontology lacks were left out: {named}." in card
