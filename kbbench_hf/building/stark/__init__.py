"""Builder of the STaRK datasets."""
