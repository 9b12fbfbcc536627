"""A benchmark for a user's own ontology, built from triples and sentences into `./kbbench/<name>`."""
