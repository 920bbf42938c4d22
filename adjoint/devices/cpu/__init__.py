"""Concrete arrays in, concrete arrays out; nothing here has heard of gradients."""
