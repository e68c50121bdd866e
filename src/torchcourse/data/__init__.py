"""Data that lessons train on: handwritten digits and support tickets."""
