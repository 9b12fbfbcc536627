"""The source folder of ska-open, from the public files: against rows that were made from them by others."""

import gzip
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.building.ska_bench import hybridqa as hybridqa_tables
from kbbench_hf.building.ska_bench import metaqa, public_files, tatqa, wikitablequestions
from kbbench_hf.building.ska_bench.public_files import REPOSITORIES, download_sources
from kbbench_hf.building.ska_bench.source_files import read_json_lines, read_triples
from kbbench_hf.errors import DataError, KBBenchError


@pytest.fixture
def raw(shared: Path) -> Path:
    return shared / "data" / "ska_open_v1"


def test_the_paths_of_metaqas_questions_are_those_of_the_prepared_rows(raw: Path) -> None:
    given = {row["id"]: row for row in read_json_lines(raw / metaqa.QUESTIONS, {"id": str, "topic": str})}
    bracketed = {name: row["question"].replace(row["topic"], f"[{row['topic']}]", 1) for name, row in given.items()}
    asked = [
        public_files.PathQuestion(name, row["hop"], bracketed[name], frozenset(row["answers"]))
        for name, row in given.items()
    ]
    triples = read_triples(raw / metaqa.TRIPLES)
    found = public_files.add_paths(asked, triples)
    assert [row["path"] for row in found] == [given[row["id"]]["path"] for row in found]
    assert len(found) >= 0.99 * len(given)  # of a wording with one question here, two paths may fit
    graph = public_files.FilmGraph(triples)
    counted = [graph.n_triples(tuple(row["path"].split("_to_")), row["topic"]) for row in given.values()]
    assert counted == [len(row["positive"]) for row in given.values()]


def test_quoted_cells_and_second_passages_are_those_of_the_prepared_rows(raw: Path) -> None:
    tables = {row["table"]: row for row in read_json_lines(raw / hybridqa_tables.TABLES, {"table": str})}
    words = public_files.PassageWords(row["passages"] for row in tables.values())
    given = read_json_lines(raw / hybridqa_tables.QUESTIONS, {"id": str})
    cells = [[text for text, _ in tables[row["table"]]["rows"][row["row"]]] for row in given]
    assert all(
        public_files.quoted_columns(r["question"], c) == r["row_cells_quoted"]
        for r, c in zip(given, cells, strict=True)
    )
    bridges = [words.find_bridges(r["question"], tables[r["table"]], r["row"], r["answer_passages"])[0] for r in given]
    same = sum(found == sorted(row["bridge_passages"]) for found, row in zip(bridges, given, strict=True))
    assert same >= 0.99 * len(given)


FILES: dict[str, dict[str, str]] = {
    "metaqa": {
        "data/MetaQA/entity2text.txt": "0\tHeat\n1\tMichael Mann\n2\tAli\n3\t1995\n4\t\n5\tAl Pacino\n",
        "data/MetaQA/relation2text.txt": "0\tdirected by\n1\trelease year\n2\tstarred actors\n",
        "data/MetaQA/train.tsv": "0\t0\t1\n2\t0\t1\n0\t2\t5\n",
        "data/MetaQA/test_old.tsv": "0\t1\t3\n0\t0\t1\n4\t0\t1\n",
        "data/MetaQA/1-hop/test.txt": "who directed [Heat]\tMichael Mann\nwho directed [Ali]\tSomebody Else\n",
        "data/MetaQA/2-hop/test.txt": "who starred in films by [Michael Mann]\tAl Pacino\n",
        "data/MetaQA/3-hop/test.txt": "when were films released of the director of [Ali]\t1995\n",
    },
    "wtq": {
        "csv/1-csv/1.csv": '"A","B","C","D","E","F"\n' + '"say \\"x\\"","2","3\n4","\\\\","5","6"\n' * 8,
        "csv/1-csv/2.csv": '"A"\n"1"\n',
        "data/training.tsv": "id\tutterance\tcontext\ttargetValue\nnt-1\ta \\p b?\tcsv/1-csv/1.csv\tx|y\\nz\n"
        "nt-2\tc?\tcsv/1-csv/2.csv\t1\n",
        "data/pristine-unseen-tables.tsv": "id\tutterance\tcontext\ttargetValue\nnu-1\td?\tcsv/1-csv/1.csv\t2\n",
    },
    "tatqa": {"dataset_raw/tatqa_dataset_test_gold.json": '[{"table": {"uid": "t"}, "questions": []}]'},
    "hybridqa": {
        "released_data/dev.traced.json": json.dumps(
            [
                {
                    "question_id": "h1",
                    "table_id": "T_0",
                    "question": "Which club has the rider of 1999 ?",
                    "answer-text": "Sky",
                    "answer-node": [["Ann", [0, 1], "/wiki/Ann", "passage"]],
                },
                {
                    "question_id": "h2",
                    "table_id": "T_0",
                    "question": "Who ?",
                    "answer-text": "Ann",
                    "answer-node": [["Ann", [0, 1], None, "table"], ["Ann", [1, 1], None, "table"]],
                },
            ]
        )
    },
    "ottqa": {
        "data/traindev_tables_tok/T_0.json": json.dumps(
            {
                "title": "T",
                "section_title": "S",
                "url": "u",
                "header": [["Year", []], ["Rider", []]],
                "data": [[["1999", []], ["Ann", ["/wiki/Ann"]]], [["2000", []], ["Ann", []]]],
            }
        ),
        "data/traindev_request_tok/T_0.json": '{"/wiki/Ann": "Ann rides for Sky ."}',
    },
    "tekgen": {"data/wikidata_tekgen/ontologies/1_movie.json": "{}"},
}
Publish = Callable[[dict[str, dict[str, str]]], str]


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Put files under the names of the sources' repositories; return the host, at whose commits they are pinned."""
    monkeypatch.setenv("KBBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    host = tmp_path / "host"

    def put(files: dict[str, dict[str, str]]) -> str:
        pinned = {}
        for source, repository in REPOSITORIES.items():
            place = host / repository.name
            for name, text in files.get(source, {}).items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_text(text, encoding="utf-8")
            if source in files:
                git(place, "init", "--quiet")
                git(place, "add", ".")
                git(place, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "files")
                git(place, "config", "uploadpack.allowFilter", "true")
                pinned[source] = repository._replace(commit=git(place, "rev-parse", "HEAD").strip())
        everything = {**REPOSITORIES, **pinned}
        monkeypatch.setattr("kbbench_hf.building.ska_bench.public_files.REPOSITORIES", everything)
        return f"file://{host}"

    return put


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def test_public_files_become_the_folder_that_is_built_from(publish: Publish) -> None:
    folder = download_sources(publish(FILES))
    assert read_triples(folder / metaqa.TRIPLES) == [
        ("Ali", "directed by", "Michael Mann"),
        ("Heat", "directed by", "Michael Mann"),
        ("Heat", "release year", "1995"),
        ("Heat", "starred actors", "Al Pacino"),
    ]
    assert [(row["id"], row["path"], row["question"]) for row in rows(folder / metaqa.QUESTIONS)] == [
        ("metaqa-1h-0", "movie_to_director", "who directed Heat"),
        ("metaqa-2h-2", "director_to_movie_to_actor", "who starred in films by Michael Mann"),
        ("metaqa-3h-3", "movie_to_director_to_movie_to_year", "when were films released of the director of Ali"),
    ]
    [table] = rows(folder / wikitablequestions.TABLES)
    assert (table["table"], table["rows"][0]) == ("csv/1-csv/1.csv", ['say "x"', "2", "3 4", "\\", "5", "6"])
    asked = rows(folder / wikitablequestions.QUESTIONS)
    assert [(row["id"], row["question"], row["answers"]) for row in asked] == [
        ("nt-1", "a | b?", ["x", "y z"]),
        ("nu-1", "d?", ["2"]),
    ]
    assert rows(folder / tatqa.FILE) == [{"questions": [], "table": {"uid": "t"}}]
    [question] = rows(folder / hybridqa_tables.QUESTIONS)
    assert question == {
        "id": "h1", "question": "Which club has the rider of 1999 ?", "answer": "Sky", "table": "T_0", "row": 0,
        "row_cells_quoted": [0], "answer_in_table": False, "answer_passages": ["/wiki/Ann"], "bridge_passages": [],
        "bridge_hits_in_table": 0,
    }  # fmt: skip
    assert hybridqa_tables.read_questions(folder)[1]["T_0"].passages == {"/wiki/Ann": "Ann rides for Sky."}
    assert (folder / "text2kgbench" / "wikidata_tekgen" / "ontologies" / "1_movie.json").is_file()


def test_what_was_fetched_before_an_interruption_is_not_fetched_again(publish: Publish, tmp_path: Path) -> None:
    host = publish(FILES)
    ottqa, away = tmp_path / "host" / "wenhuchen" / "OTT-QA", tmp_path / "away"
    ottqa.rename(away)
    with pytest.raises(KBBenchError, match=r"OTT-QA at .* could not be fetched .*Run the same command again, or give"):
        download_sources(host)
    away.rename(ottqa)
    (tmp_path / "host" / "vaijsc").rename(away)
    folder = download_sources(host)
    assert len(rows(folder / metaqa.QUESTIONS)) == 3
    ottqa.rename(tmp_path / "away too")
    assert download_sources(host) == folder  # nothing is fetched once all is there


def test_a_commit_that_is_not_there_and_a_file_that_is_malformed_are_refused_in_words(
    publish: Publish, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = publish({**FILES, "tatqa": {"dataset_raw/tatqa_dataset_test_gold.json": "[{"}})
    with pytest.raises(DataError, match=r"TAT-QA.* does not hold the files of its commit .*Remove that folder"):
        download_sources(host)
    assert not list((tmp_path / "cache" / "ska-open").glob("source-*"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("KBBENCH_CACHE", str(tmp_path / "empty"))
    with pytest.raises(KBBenchError, match="fetched by git, which is not on the PATH"):
        download_sources(host)
