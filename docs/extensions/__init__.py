"""What the site's pages take from the package itself: formulas, tables, pictures, differences."""
