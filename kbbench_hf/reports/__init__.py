"""Reports: tables, plots, pages and exports."""
