"""Placeholder docstring, replaced as the package fills."""
