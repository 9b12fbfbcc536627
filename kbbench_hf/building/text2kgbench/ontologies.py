"""Parser of Text2KGBench's ontologies: JSON, completed by what only the OWL (Turtle) files contain."""

import json
import re
from pathlib import Path

from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import Row

_TOKEN = re.compile(
    r"""\s+ | <(?P<iri>[^<>]*)> | "(?P<text>[^"\\]*)" | (?P<name>@prefix|a\b|[A-Za-z]\w*:\w*) | (?P<mark>[;,.])""",
    re.VERBOSE,
)


def read_ontology(ontology_id: str, json_path: Path, ttl_path: Path) -> Row:
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
        concepts = [_text_fields(each, ("qid", "label")) for each in released["concepts"]]
        fields = ("pid", "label", "domain", "range")
        relations = [_text_fields(each, fields) for each in released["relations"]]
        title = str(released["title"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{json_path}: {error!r}. Expected an ontology with title, concepts and relations. Fetch the release again."
        ) from error

    classes, properties = _read_owl(ttl_path)
    known = {each["qid"] for each in concepts}
    concepts += [each for name, each in classes.items() if name not in known]
    known = {each["pid"] for each in relations}
    relations += [each for name, each in properties.items() if name not in known]
    for concept in concepts:
        concept["subclass_of"] = classes.get(concept["qid"], {}).get("subclass_of", [])
    return {"ontology_id": ontology_id, "title": title, "concepts": concepts, "relations": relations}


def _text_fields(released: Row, fields: tuple[str, ...]) -> Row:
    """Return the fields of a concept or relation of the JSON file, which must be text."""
    wrong = [name for name in fields if not isinstance(released[name], str)]
    if wrong:
        raise TypeError(f"{wrong[0]} is {released[wrong[0]]!r}")
    return {name: released[name] for name in fields} | {"source": "json"}


def _read_owl(path: Path) -> tuple[dict[str, Row], dict[str, Row]]:
    """Return the classes and the object properties of a Turtle file, by identifier and sorted by it."""
    subjects = sorted(_read_turtle(path).items())
    try:
        classes = {
            name: {
                "qid": name,
                "label": facts["rdfs:label"][0],
                "subclass_of": facts.get("rdfs:subClassOf", []),
                "source": "ttl",
            }
            for name, facts in subjects
            if "owl:Class" in facts["a"]
        }
        properties = {
            name: {
                "pid": name,
                "label": facts["rdfs:label"][0],
                "domain": facts.get("rdfs:domain", [""])[0],
                "range": facts.get("rdfs:range", [""])[0],
                "source": "ttl",
            }
            for name, facts in subjects
            if "owl:ObjectProperty" in facts["a"]
        }
    except KeyError as error:
        raise DataError(f"{path}: a class or property has no {error}. Fetch the release again.") from error
    return classes, properties


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
        kind, position = match.lastgroup, match.end()
        if match["mark"] == ".":
            _add_statement(statement, subjects)
            statement = []
        elif kind:
            statement.append(match[kind].rsplit("#", 1)[-1] if kind == "iri" else match[kind])
    if statement:
        raise DataError(f"{path}: the last statement has no final '.'. The file is cut short; fetch the release again.")
    return subjects


def _add_statement(statement: list[str], subjects: dict[str, dict[str, list[str]]]) -> None:
    """Add `subject predicate object (, object)* (; predicate object ...)*` to the subjects; prefixes are dropped."""
    if statement[:1] in ([], ["@prefix"]):
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
