"""The relational templates from which STaRK's questions were made, by name.

Source: Wu et al., "STaRK: Benchmarking LLM Retrieval on Textual and Relational Knowledge Bases", section 3 and
appendix A: 28 templates of Prime, 7 of MAG; for Amazon, one or more relations of a product. The names are ours, each
after what the template answers. The notation is that of `kbbench_hf.knowledge_base.metapaths`.

>>> from kbbench_hf.benchmarks.stark.metapaths import metapath
>>> metapath("prime", "drugs_targeting_genes_expressed_in").topics
('anatomy',)
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kbbench_hf.errors import unknown_name
from kbbench_hf.knowledge_base.metapaths import Metapath

_HERE = Path(__file__).parent
METAPATHS: Mapping[str, Mapping[str, str]] = tomllib.loads((_HERE / "metapaths.toml").read_text(encoding="utf-8"))
"""Knowledge base -> name -> template."""
WORDS: Mapping[str, Mapping[str, Any]] = tomllib.loads((_HERE / "construction.toml").read_text(encoding="utf-8"))
"""Knowledge base -> words for its types and relations."""


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


def construction(knowledge_base: str) -> Mapping[str, Any]:
    """Return the spec for synthesizing more questions of a knowledge base: the paper's templates, our words."""
    templates = [{"metapath": path, "name": name} for name, path in METAPATHS[knowledge_base].items()]
    return {"templates": templates, "words": WORDS[knowledge_base], "skip_absent": True}
