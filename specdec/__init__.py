"""Composable speculative decoding in JAX."""
