"""Expected sizes, types and known defects of STaRK's three releases, from `facts.toml`."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from kbbench_hf.building.stark.archives import Archive
from kbbench_hf.building.stark.questions import QuestionFacts

_FACTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class StarkRelease:
    """One of the three datasets: its name in the release, and what is known of its files."""

    dataset: str
    name: str
    questions: QuestionFacts
    archive: Archive
    lists_templates: bool = True
    """Whether the paper lists all templates; of Amazon it says that relations are combined."""


def _release(name: str) -> StarkRelease:
    facts = _FACTS[name]
    return StarkRelease(
        facts["dataset"],
        name,
        QuestionFacts(
            n_nodes=facts["n_nodes"],
            candidates=range(*facts["candidates"]),
            counts={what: tuple(values) for what, values in facts["counts"].items()},
            known_wrong={(int(answer),): tuple(why) for answer, why in facts.get("known_wrong", {}).items()},
            ids_are_answers=facts.get("ids_are_answers", False),
        ),
        Archive(
            folder=facts["folder"],
            node_types=tuple(facts["node_types"]),
            relations=tuple(facts["relations"]),
            n_nodes=facts["n_nodes"],
            n_edges=facts.get("n_edges"),
            nodes_by_type=facts.get("nodes_by_type", {}),
            without_type_names=facts.get("without_type_names", False),
        ),
        lists_templates=facts.get("lists_templates", True),
    )


AMAZON, MAG, PRIME = map(_release, ("amazon", "mag", "prime"))
