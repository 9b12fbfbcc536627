"""Parsers of model replies: strip the reasoning, find the final answer, parse triples, answers, scores and verdicts.

`triples`, `answers`, `scores`, `verdicts` and `tool_calls` are what other packages call; the rest serves them. A reply
that two people could read differently is refused with `ParseError`, never guessed. Stored runs and published scores
depend on how replies are parsed: each reply of the corpora in `tests/unit/parsing` must be parsed as before.
"""
