"""The private halves of lesson 14's exercises, one a module."""
