"""The exercises of lesson 12, one a module."""
