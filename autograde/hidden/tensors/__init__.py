"""The private halves of lesson 01's exercises, one a module."""
