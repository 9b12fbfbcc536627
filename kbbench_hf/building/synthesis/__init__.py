"""Questions for a knowledge base, made from its own structure and texts without a model.

`questions.py` is the whole: `spec.py` says what is wanted, `schema.py` and `templates.py` find what can be asked,
`instances.py` draws topic entities, `requirements.py` narrows the answers by text and attributes, `wording.py` says it
in words, `splits.py` shares the questions out, `card.py` describes what was made.
"""
