"""What is known of STaRK's three releases (Hugging Face snap-stanford/stark, commit 88269e2), as data."""

from dataclasses import dataclass

from kbbench_hf.releases.stark_archives import Archive
from kbbench_hf.releases.stark_questions import Questions


@dataclass(frozen=True)
class Release:
    """One of the three datasets: its name in the release, and what is known of its files."""

    dataset: str
    name: str
    questions: Questions
    archive: Archive


AMAZON = Release(
    dataset="stark-amazon",
    name="amazon",
    questions=Questions(
        n_nodes=1_035_542,
        candidates=range(957_192),
        counts={
            "questions": (9_100,),
            "train": (5_910,),
            "validation": (1_548,),
            "test": (1_642,),
            "test_0_1": (164,),
            "human": (81,),
            "multi-answer": (7_082,),
            "human multi-answer": (64,),
            "distinct answers": (150_242,),
            "duplicate answers": (0,),
        },
        ids_are_answers=True,
    ),
    archive=Archive(
        folder="processed/cache/brand-category-color",
        node_types=("product", "brand", "category", "color"),
        relations=("also_buy", "also_view", "has_brand", "has_category", "has_color"),
        n_nodes=1_035_542,
    ),
)
MAG = Release(
    dataset="stark-mag",
    name="mag",
    questions=Questions(
        n_nodes=1_872_968,
        candidates=range(1_172_724, 1_872_968),
        counts={
            "questions": (13_323,),
            "train": (7_993,),
            "validation": (2_665,),
            "test": (2_665,),
            "test_0_1": (266,),
            "human": (84,),
            "multi-answer": (6_872,),
            "human multi-answer": (34,),
            "distinct answers": (34_967,),
            "duplicate answers": (0,),
        },
    ),
    archive=Archive(
        folder="processed",
        node_types=("author", "institution", "field_of_study", "paper"),
        relations=(
            "author___affiliated_with___institution",
            "paper___cites___paper",
            "paper___has_topic___field_of_study",
            "author___writes___paper",
        ),
        n_nodes=1_872_968,
        n_edges=19_919_698,
    ),
)
PRIME = Release(
    dataset="stark-prime",
    name="prime",
    questions=Questions(
        n_nodes=129_375,
        candidates=range(129_375),
        counts={
            "questions": (11_204,),
            "train": (6_162,),
            "validation": (2_241,),
            "test": (2_801,),
            "test_0_1": (280,),
            "human": (109, 104, 98),  # on GitHub; on the Hub from 2024-10-10 and from 2024-10-20
            "multi-answer": (4_188,),
            "human multi-answer": (43, 42, 41),
            "distinct answers": (12_828,),
            "duplicate answers": (36,),
        },
        # The answer is the node that the question is about. The first four were taken out of the Hub's copy
        # (snap-stanford/stark issue 9). On GitHub these are questions 47, 48, 62, 78 and 27.
        known_wrong={
            (61_686,): ("wrong_answer", "removed_upstream"),
            (59_962,): ("wrong_answer", "removed_upstream"),
            (58_668,): ("wrong_answer", "removed_upstream"),
            (33_958,): ("wrong_answer", "removed_upstream"),
            (81_602,): ("wrong_answer",),
        },
    ),
    archive=Archive(
        folder="processed",
        node_types=(
            *("disease", "gene/protein", "molecular_function", "drug", "pathway"),
            *("anatomy", "effect/phenotype", "biological_process", "cellular_component", "exposure"),
        ),
        relations=(
            *("ppi", "carrier", "enzyme", "target", "transporter", "contraindication", "indication", "off-label use"),
            *("synergistic interaction", "associated with", "parent-child", "phenotype absent", "phenotype present"),
            *("side effect", "interacts with", "linked to", "expression present", "expression absent"),
        ),
        n_nodes=129_375,
        n_edges=8_100_498,
        nodes_by_type={
            "disease": 17_080,
            "gene/protein": 27_671,
            "molecular_function": 11_169,
            "drug": 7_957,
            "pathway": 2_516,
            "anatomy": 14_035,
            "effect/phenotype": 15_311,
            "biological_process": 28_642,
            "cellular_component": 4_176,
            "exposure": 818,
        },
    ),
)
