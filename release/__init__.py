"""How a version is released: `make release VERSION=1.2.3`, with DRY_RUN=1 to leave nothing behind."""
