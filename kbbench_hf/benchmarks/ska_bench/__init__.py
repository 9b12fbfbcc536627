"""SKA-Bench: understanding structured knowledge among noise (Liu et al., EMNLP 2025)."""
