"""Builder of the GenRES datasets."""
