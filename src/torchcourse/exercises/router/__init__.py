"""The exercises of lesson 14, one a module."""
