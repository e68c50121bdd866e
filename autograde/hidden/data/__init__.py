"""The private halves of lesson 04's exercises, one a module."""
