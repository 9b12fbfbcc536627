"""A benchmark for one's own ontology: sentences aligned with triples, split, and set beside what a model is asked."""
