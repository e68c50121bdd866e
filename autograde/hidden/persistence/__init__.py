"""The private halves of lesson 09's exercises, one a module."""
