"""Text2KGBench's ontologies: the JSON that its prompts and metric read, and what only its OWL (Turtle) files have."""

import json
import re
from pathlib import Path
from typing import Any

from kbbench_hf.errors import DataError

_TOKEN = re.compile(
    r"""\s+ | <(?P<iri>[^<>]*)> | "(?P<text>[^"\\]*)" | (?P<name>@prefix|a\b|[A-Za-z]\w*:\w*) | (?P<mark>[;,.])""",
    re.VERBOSE,
)


def read_ontology(ontology_id: str, json_path: Path, ttl_path: Path) -> dict[str, Any]:
    """Return one row of the config `ontologies`: `ontology_id title concepts relations`.

    A concept is `{qid, label, subclass_of, source}`, a relation `{pid, label, domain, range, source}`. Those of the
    JSON file come first, verbatim and in its order, with source "json": labels may end in a blank, repeat, or name
    a domain that is no concept, and published prompts and figures depend on each of these. Those that only the
    Turtle file has follow, sorted by identifier, with source "ttl". `subclass_of` lists qids (music only).

    Raises:
        DataError: a file is absent, malformed, or uses Turtle that the release does not.
    """
    try:
        released = json.loads(json_path.read_text(encoding="utf-8"))
        concepts = [{"qid": each["qid"], "label": each["label"], "source": "json"} for each in released["concepts"]]
        relations = [
            {key: each[key] for key in ("pid", "label", "domain", "range")} | {"source": "json"}
            for each in released["relations"]
        ]
        title = released["title"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{json_path}: {error!r}. Expected an ontology with title, concepts and relations. Fetch the release again."
        ) from error

    subjects = _read_turtle(ttl_path)
    classes = {name: facts for name, facts in subjects.items() if "owl:Class" in facts["a"]}
    properties = {name: facts for name, facts in subjects.items() if "owl:ObjectProperty" in facts["a"]}
    in_json = {each["qid"] for each in concepts}
    concepts += [
        {"qid": name, "label": facts["rdfs:label"][0], "source": "ttl"}
        for name, facts in sorted(classes.items())
        if name not in in_json
    ]
    in_json = {each["pid"] for each in relations}
    relations += [
        {
            "pid": name,
            "label": facts["rdfs:label"][0],
            "domain": facts.get("rdfs:domain", [""])[0],
            "range": facts.get("rdfs:range", [""])[0],
            "source": "ttl",
        }
        for name, facts in sorted(properties.items())
        if name not in in_json
    ]
    for each in concepts:
        each["subclass_of"] = classes.get(each["qid"], {}).get("rdfs:subClassOf", [])
    return {"ontology_id": ontology_id, "title": title, "concepts": concepts, "relations": relations}


def _read_turtle(path: Path) -> dict[str, dict[str, list[str]]]:
    """Return subject -> predicate -> objects, each IRI cut to what follows its `#`.

    Reads the Turtle that the release's 29 files use: prefixes, IRIs, prefixed names, plain strings, `;` and `,`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}. Expected an ontology in Turtle. Fetch the release again.") from error
    subjects: dict[str, dict[str, list[str]]] = {}
    statement: list[str] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            line = text.count("\n", 0, position) + 1
            raise DataError(
                f"{path}, line {line}: {text[position : position + 30]!r} is not Turtle as the release writes it. "
                "Fetch the release again."
            )
        position = match.end()
        if match["mark"] == ".":
            _add_statement(statement, subjects)
            statement = []
        elif match["mark"]:
            statement.append(match["mark"])
        elif match["iri"] is not None:
            statement.append(match["iri"].rsplit("#", 1)[-1])
        elif match["text"] is not None or match["name"]:
            statement.append(match["name"] or match["text"])
    if statement:
        raise DataError(f"{path}: the last statement has no final '.'. The file is cut short; fetch the release again.")
    return subjects


def _add_statement(statement: list[str], subjects: dict[str, dict[str, list[str]]]) -> None:
    """Add `subject predicate object (, object)* (; predicate object ...)*` to the subjects; prefixes are dropped."""
    if statement[:1] == ["@prefix"]:
        return
    facts = subjects.setdefault(statement[0], {"a": []})
    predicate = ""
    for term in statement[1:]:
        if term == ";":
            predicate = ""
        elif not predicate:
            predicate = term
        elif term != ",":
            facts.setdefault(predicate, []).append(term)
