"""What is on disk: datasets, JSON Lines, journals, downloads, and files that are there whole or not at all."""
