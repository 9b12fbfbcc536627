"""Text primitives: folding, words, numbers and units, dates, name variants, tokenizers of published scores."""
