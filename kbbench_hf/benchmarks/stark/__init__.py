"""STaRK: retrieval over text and relations (Wu et al., NeurIPS 2024)."""
