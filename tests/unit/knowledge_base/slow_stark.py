"""STaRK's documents by the shortest road: dictionaries and loops, written from the description of their format.

It shares nothing with the package, so that an agreement of the two means something.
"""

import json
import math
import re
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa

from kbbench_hf.knowledge_base import KnowledgeBase
from kbbench_hf.knowledge_base.tables import schema_table


@dataclass
class SlowSTaRK:
    records: list[dict[str, Any]]
    types: list[int]
    node_types: list[str]
    relations: list[str]
    edges: list[tuple[int, int, int]]

    def __post_init__(self) -> None:
        self.neighbors: dict[tuple[int, int], set[int]] = defaultdict(set)
        for head, relation, tail in self.undirected():
            self.neighbors[head, relation].add(tail)

    def undirected(self) -> list[tuple[int, int, int]]:
        if sorted((h, t) for h, _, t in self.edges) == sorted((t, h) for h, _, t in self.edges):
            return self.edges
        numbers = defaultdict(list)
        for head, relation, tail in self.edges:
            numbers[head, tail].append(relation)
            numbers[tail, head].append(relation)
        return [(h, int(Fraction(sum(found), len(found))), t) for (h, t), found in numbers.items()]

    def of(self, node: int, relation: str) -> list[int]:
        return sorted(self.neighbors.get((node, self.relations.index(relation)), ()))

    def type_of(self, node: int) -> str:
        return self.node_types[self.types[node]]

    def knowledge_base(self, names: list[str]) -> KnowledgeBase:
        nodes = pa.table(
            {
                "id": range(len(self.types)),
                "type": [self.type_of(i) for i in range(len(self.types))],
                "name": pa.array(names, pa.string()),
                "text": [""] * len(names),
                "details": [json.dumps(record, ensure_ascii=False) for record in self.records],
            }
        )
        columns = list(zip(*self.edges, strict=True)) or [[], [], []]
        edges = pa.table(
            {
                "head": pa.array(columns[0], pa.int64()),
                "relation": pa.array([self.relations[r] for r in columns[1]], pa.string()),
                "tail": pa.array(columns[2], pa.int64()),
            }
        )
        return KnowledgeBase.from_arrow(nodes, edges, schema_table(nodes, edges, self.node_types, self.relations))

    def prime(self, i: int, relations: bool) -> str:
        record = self.records[i]
        out = "- name: " + record["name"] + "\n- type: " + record["type"] + "\n- source: " + record["source"] + "\n"
        explained = {
            "name": "gene name", "type_of_gene": "gene types", "alias": "other gene names",
            "other_names": "extended other gene names", "genomic_pos": "genomic position", "generif": "PubMed text",
            "interpro": "protein family and classification information", "summary": "protein summary text",
        }  # fmt: skip
        lines = ""
        for key, value in without_nothing(record.get("details", {})).items():
            if key[:1] == "_" or "_id" in key:
                continue
            if record["type"] == "gene/protein" and key in explained:
                if key == "interpro":
                    value = [v["desc"] for v in ([value] if isinstance(value, dict) else value)]
                if key == "generif":
                    value = " ".join("; ".join(v["text"] for v in value).split(" ")[:50000])
                if key == "genomic_pos" and isinstance(value, list):
                    value = value[0]
                key = f"{key} ({explained[key]})"
            lines += "  - " + key + ": " + str(value) + "\n"
        out += "- details:\n" + lines if lines else ""
        if relations:
            related = ""
            for relation in self.relations:
                if found := self.of(i, relation):
                    related += "\n  " + relation.replace(" ", "_") + ": {"
                    for number in set([self.types[n] for n in found]):  # noqa: C403, in the order of insertion
                        named = [self.records[n]["name"] for n in found if self.types[n] == number]
                        related += self.node_types[number] + ": (" + ", ".join(named) + "),"
                    related += "}"
            out += "- relations:" + related if related else ""
        return out

    def mag(self, i: int, relations: bool) -> str:
        record, kind = self.records[i], self.type_of(i)
        if kind != "paper":
            first = {"author": "- author name", "institution": " - institution", "field_of_study": " - field of study"}
            word = {"author": "author", "institution": "institution", "field_of_study": "field"}[kind]
            out = first[kind] + ": " + str(record["DisplayName"]) + "\n"
            if record["PaperCount"] != -1:
                out += f"- {word} paper count: {record['PaperCount']}\n"
            if record["CitationCount"] != -1:
                out += f"- {word} citation count: {record['CitationCount']}\n"
            return out.replace("-1", "Unknown")
        out = f" - paper title: {record['title']}\n"
        out += " - abstract: " + record["abstract"].replace("\r", "").rstrip("\n") + "\n"
        if str(record["Date"]) != "-1":
            out += f" - publication date: {record['Date']}\n"
        for key, label in [
            ("OriginalVenue", "venue"), ("JournalDisplayName", "journal"),
            ("ConferenceSeriesDisplayName", "conference"), ("ConferenceInstancesDisplayName", "conference"),
        ]:  # fmt: skip
            if str(record[key]) != "-1":
                out += f" - {label}: {record[key]}\n"
                break
        related = ""
        for relation in self.relations if relations else []:
            if found := self.of(i, relation):
                named = []
                for n in found:
                    if self.type_of(n) == "paper":
                        named.append('"' + str(self.records[n]["title"]) + '"')
                    elif str(self.records[n]["DisplayName"]) != "-1":
                        name = self.records[n]["DisplayName"]
                        places = self.of(n, self.relations[0]) if self.type_of(n) == "author" else []
                        where = [str(self.records[p]["DisplayName"]) for p in places]
                        where = [w for w in where if w != "-1"]
                        named.append(name + (" (" + ", ".join(where) + ")" if where else ""))
                related += "\n" + relation.replace("___", " ") + ": (" + ", ".join(named) + "),"
        return out + ("- relations:\n" + related if related else "")

    def amazon(self, i: int, relations: bool) -> str:
        record, kind = self.records[i], self.type_of(i)
        if kind != "product":
            return f"{kind} name: {record[kind + '_name']}"
        out = f"- product: {record['title']}\n"
        if "brand" in record:
            out += f"- brand: {record['brand']}\n"
        details = record.get("details")
        measures = details.get("product_dimensions", "") if isinstance(details, dict) else ""
        if measures.count(" ; ") == 1:
            out += "- dimensions: {}\n- weight: {}\n".format(*measures.split(" ; "))
        if record["description"] and " ".join(record["description"]).strip(" "):
            out += "- description: " + " ".join(record["description"]).strip(" ") + "\n"
        if record["feature"]:
            out += "- features: \n"
            for number, feature in enumerate(record["feature"]):
                if feature and "asin" not in feature.lower():
                    out += f"#{number + 1}: {feature}\n"
        if record["review"]:
            out += "- reviews: \n"
            ranked = sorted(enumerate(record["review"]), key=lambda pair: -votes(pair[1]["vote"]))
            for place, (number, review) in enumerate(ranked):
                out += f'#{number + 1}:\nsummary: {review["summary"]}\ntext: "{review["reviewText"]}"\n'
                if place > 25:
                    break
        if record["qa"]:
            out += "- Q&A: \n"
            for number, qa in enumerate(record["qa"]):
                out += f'#{number + 1}:\nquestion: "{qa["question"]}"\nanswer: "{qa["answer"]}"\n'
                if number > 25:
                    break
        related = ""
        if relations:
            for relation, label in [("also_buy", "purchased"), ("also_view", "viewed")]:
                titles = [self.records[n]["title"] for n in self.of(i, relation)]
                if titles:
                    related += f"  products also {label}: \n"
                    related += "".join(f"#{number + 1}: {title}\n" for number, title in enumerate(titles))
            if brands := self.of(i, "has_brand"):
                related += f"  brand: {self.records[brands[0]]['brand_name']}\n"
        return out + ("- relations:\n" + related if related else "")


def on_one_line(text: str) -> str:
    text = text.replace("\n", ". ").replace("\r", "").replace("- ", "").replace(": .", ":").replace(":.", ":")
    return re.sub(r"\s{2,}", " ", text).replace(".. ", ". ")


def without_nothing(record: dict[str, Any]) -> dict[str, Any]:
    cleaned = {key: without_nothing(value) if isinstance(value, dict) else value for key, value in record.items()}
    return {key: value for key, value in cleaned.items() if str(value) not in ("", "nan")}


def votes(vote: Any) -> int:
    return 0 if vote is None or (isinstance(vote, float) and math.isnan(vote)) else int(vote.replace(",", ""))
