"""What a model meant by its reply: thought set apart, the answer it stands by, and the rule by which it was read."""
