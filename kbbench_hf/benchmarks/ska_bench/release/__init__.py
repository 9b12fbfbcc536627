"""From sources to instances: the official files, and those that we make."""
