"""The web pages, beside the API in one application."""

from fastapi import FastAPI


def add_pages(_app: FastAPI) -> None:
    """Add the pages to the application."""
