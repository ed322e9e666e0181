"""Penstock joins a fast stream with a table too big for memory, inside a fixed number of bytes."""

__version__ = "0.1.0"
