"""The exercises of lesson 03, one a module."""
