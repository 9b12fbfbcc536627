"""The relational templates from which STaRK's questions were made, by name.

Source: Wu et al., "STaRK: Benchmarking LLM Retrieval on Textual and Relational Knowledge Bases", section 3 and
appendix A: 28 templates of Prime, 7 of MAG; for Amazon, one or more relations of a product. The names are ours, each
after what the template answers. The notation is that of `kbbench_hf.knowledge_base.metapaths`.

>>> from kbbench_hf.benchmarks.stark_metapaths import metapath
>>> metapath("prime", "drugs_targeting_genes_expressed_in").topics
('anatomy',)
"""

from collections.abc import Mapping
from functools import cache

from kbbench_hf.errors import unknown_name
from kbbench_hf.knowledge_base import Metapath

PRIME = {
    # The paper's wording of the first says "associated with" where its path says "phenotype absent": the path is kept.
    "diseases_without_indicated_drug": "effect/phenotype -[phenotype absent]-> disease <-[!indication]- any drug",
    "diseases_contraindicated_and_associated": "drug -[contraindication]-> disease <-[associated with]- gene/protein",
    "genes_present_and_absent_in": ("anatomy:1 -[expression present]-> gene/protein <-[expression absent]- anatomy:2"),
    "genes_absent_in_both": "anatomy:1 -[expression absent]-> gene/protein <-[expression absent]- anatomy:2",
    "carriers_shared_by": "drug:1 -[carrier]-> gene/protein <-[carrier]- drug:2",
    "drugs_targeting_genes_expressed_in": "anatomy -[expression present]-> gene/protein -[target]-> drug",
    "drugs_with_common_side_effects": "drug -[side effect]-> effect/phenotype -[side effect]-> drug",
    "drugs_with_common_carrier": "drug -[carrier]-> gene/protein -[carrier]-> drug",
    "drugs_with_enzymes_expressed_in": "anatomy -[expression present]-> gene/protein -[enzyme]-> drug",
    "drugs_carried_by_genes_of_component": ("cellular_component -[interacts with]-> gene/protein -[carrier]-> drug"),
    "drugs_targeting_genes_of_function": "molecular_function -[interacts with]-> gene/protein -[target]-> drug",
    "drugs_synergistic_with_one_that_causes": (
        "effect/phenotype -[side effect]-> drug -[synergistic interaction]-> drug"
    ),
    "contraindications_of_drugs_for": "disease -[indication]-> drug -[contraindication]-> disease",
    "phenotypes_of_subtypes": "disease -[parent-child]-> disease -[phenotype present]-> effect/phenotype",
    "side_effects_of_drugs_transported_by": "gene/protein -[transporter]-> drug -[side effect]-> effect/phenotype",
    "exposures_of_transporters_of": "drug -[transporter]-> gene/protein -[interacts with]-> exposure",
    "partners_of_genes_in_pathway": "pathway -[interacts with]-> gene/protein -[ppi]-> gene/protein",
    "transporters_of_synergistic_drugs": "drug -[synergistic interaction]-> drug -[transporter]-> gene/protein",
    "processes_sharing_genes": (
        "biological_process -[interacts with]-> gene/protein -[interacts with]-> biological_process"
    ),
    "processes_of_genes_of_phenotype": (
        "effect/phenotype -[associated with]-> gene/protein -[interacts with]-> biological_process"
    ),
    "anatomies_expressing_transporters_of": "drug -[transporter]-> gene/protein -[expression present]-> anatomy",
    "components_of_targets_of": "drug -[target]-> gene/protein -[interacts with]-> cellular_component",
    "anatomies_lacking_genes_of_process": (
        "biological_process -[interacts with]-> gene/protein -[expression absent]-> anatomy"
    ),
    "anatomies_lacking_genes_of_phenotype": (
        "effect/phenotype -[associated with]-> gene/protein -[expression absent]-> anatomy"
    ),
    "synergistic_drugs_for_the_same_disease": (
        "drug -[indication]-> disease -[indication]-> drug & drug -[synergistic interaction]-> drug"
    ),
    "related_pathways_sharing_a_gene": (
        "pathway -[interacts with]-> gene/protein -[interacts with]-> pathway & pathway -[parent-child]-> pathway"
    ),
    "interacting_genes_of_the_same_disease": (
        "gene/protein -[associated with]-> disease -[associated with]-> gene/protein"
        " & gene/protein -[ppi]-> gene/protein"
    ),
    "interacting_genes_of_the_same_phenotype": (
        "gene/protein -[associated with]-> effect/phenotype -[associated with]-> gene/protein"
        " & gene/protein -[ppi]-> gene/protein"
    ),
}

MAG = {
    "papers_by_author": "author -[author___writes___paper]-> paper",
    "papers_cited_by": "paper -[paper___cites___paper]-> paper",
    "papers_on_field": "field_of_study -[^paper___has_topic___field_of_study]-> paper",
    "papers_from_institution": (
        "institution -[^author___affiliated_with___institution]-> author -[author___writes___paper]-> paper"
    ),
    "papers_by_coauthors": "paper -[^author___writes___paper]-> author -[author___writes___paper]-> paper",
    "papers_sharing_author_and_field": (
        "paper -[^author___writes___paper]-> author -[author___writes___paper]-> paper"
        " <-[^paper___has_topic___field_of_study]- field_of_study <-[paper___has_topic___field_of_study]- paper"
    ),
    "papers_from_institution_on_field": (
        "institution -[^author___affiliated_with___institution]-> author -[author___writes___paper]-> paper"
        " <-[^paper___has_topic___field_of_study]- field_of_study"
    ),
}

AMAZON = {
    "products_bought_with": "product -[also_buy]-> product",
    "products_viewed_with": "product -[also_view]-> product",
    "products_of_brand": "brand -[^has_brand]-> product",
    "products_in_category": "category -[^has_category]-> product",
    "products_in_color": "color -[^has_color]-> product",
    "products_of_brand_bought_with": "product -[also_buy]-> product <-[^has_brand]- brand",
    "products_of_brand_viewed_with": "product -[also_view]-> product <-[^has_brand]- brand",
    "products_of_brand_in_category": "brand -[^has_brand]-> product <-[^has_category]- category",
    "products_of_brand_in_color": "brand -[^has_brand]-> product <-[^has_color]- color",
    "products_in_category_in_color": "category -[^has_category]-> product <-[^has_color]- color",
}
"""The single relations, and pairs of them as examples: the paper combines "one or more" and lists no more than that."""

METAPATHS: Mapping[str, Mapping[str, str]] = {"prime": PRIME, "mag": MAG, "amazon": AMAZON}


@cache
def metapath(knowledge_base: str, name: str) -> Metapath:
    """Return a template by the name of its knowledge base ("prime", "mag" or "amazon") and its own.

    Raises:
        UsageError: either name is unknown; the message lists the known ones.
    """
    if knowledge_base not in METAPATHS:
        raise unknown_name("knowledge base", knowledge_base, METAPATHS)
    if name not in METAPATHS[knowledge_base]:
        raise unknown_name(f"metapath of {knowledge_base}", name, METAPATHS[knowledge_base])
    return Metapath.parse(METAPATHS[knowledge_base][name])
