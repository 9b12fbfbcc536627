"""Judges of extracted triples: LLM judges, NLI models, surface baseline, embedders' thresholds, topic models (LDA)."""
