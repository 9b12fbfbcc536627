"""Retrievers: BM25, dense, multi-vector, late interaction, fusion, graph ranker, QA-GNN, VSS, LLM re-ranking."""
