"""How models are run: Accelerate, batching, concurrency, retries, resuming. These live here and nowhere else."""
