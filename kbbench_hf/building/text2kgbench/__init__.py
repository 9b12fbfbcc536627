"""Builder of the Text2KGBench datasets."""
