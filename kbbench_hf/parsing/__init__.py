"""Parsers of model replies: strip the reasoning, find the final answer, parse triples, answers, scores and verdicts."""
