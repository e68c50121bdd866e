"""The private halves of lesson 06's exercises, one a module."""
