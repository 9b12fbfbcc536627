"""Metrics: pure functions of arrays and sets that return one value per example; no files, no models.

NaN means "not scored", zero "scored, and wrong". Only `aggregate` averages. Published scores depend on each `reference`
mode: a change of its definition is a new mode. Each metric has worked examples and an independent definition in
`tests/unit/metrics`.
"""
