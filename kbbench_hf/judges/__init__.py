"""Judges of extracted triples: LLM judges, NLI models, a surface model, thresholds of embedders, topic models."""
