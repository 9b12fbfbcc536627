"""Text2KGBench: triples from a sentence, guided by an ontology (Mihindukulasooriya et al., ISWC 2023)."""
