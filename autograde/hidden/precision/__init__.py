"""The private halves of lesson 07's exercises, one a module."""
