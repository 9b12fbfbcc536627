"""Question synthesis for a knowledge base, from its own structure and texts, by a grammar or with language models.

`questions` is the whole without models, `llm_questions` the one with them. `spec` has the options, `schema` and
`templates` find the templates, `instances` draws topic entities, `requirements` narrows the answers by texts and
attributes, `wording` writes the questions, `synthesize` the dataset with its card.

The same knowledge base, spec and seed give the same bytes: no random number, order or choice of words may depend on
anything else. A change that draws other numbers changes the datasets of all users who build again.
"""
