"""The private halves of lesson 02's exercises, one a module."""
