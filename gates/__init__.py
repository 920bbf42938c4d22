"""Programs generated at random and compared with torch: longer runs of what the tests sample (see CONTRIBUTING.md)."""
