"""Text primitives: folding, words, numbers and units, dates, name variants, tokenizers of published scores.

Pure functions, cached where they are called often. Published scores and built datasets depend on what they return:
change one only together with the mode or the revision that needs the change.
"""
