"""The exercises of lesson 08, one a module."""
