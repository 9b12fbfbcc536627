"""Graph ranker: query understanding, and propagation of scores along edges."""
