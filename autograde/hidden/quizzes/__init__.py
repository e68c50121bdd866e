"""The private halves of the exercises of lesson 15."""
