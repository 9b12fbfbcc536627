"""Dataset builders: readers of releases, construction of new data, audits and cards."""
