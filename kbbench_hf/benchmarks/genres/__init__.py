"""GenRES: generative relation extraction (Jiang et al., NAACL 2024)."""
