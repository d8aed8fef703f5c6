"""Presentation of answers as text, HTML and pictures."""
