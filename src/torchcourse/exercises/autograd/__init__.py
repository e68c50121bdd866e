"""The exercises of lesson 02, one a module."""
