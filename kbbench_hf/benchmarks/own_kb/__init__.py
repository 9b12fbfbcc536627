"""A user's own knowledge base with questions, built from tables into `./kbbench/<name>`."""
