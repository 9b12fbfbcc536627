"""What answers: retrievers, embedders, language models and judges, each behind a Protocol of `kbbench_hf.protocols`."""
