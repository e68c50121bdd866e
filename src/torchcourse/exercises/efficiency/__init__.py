"""The exercises of lesson 13, one a module."""
