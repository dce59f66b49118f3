"""Ready policies."""
