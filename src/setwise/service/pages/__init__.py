"""The web pages, beside the API in one application: rendered here, drawn by a chart library served from here."""

from fastapi import FastAPI

from setwise.service.auth.permissions import check_rights
from setwise.service.pages import account, answers, ask, audit, explore, login, static_files, steward
from setwise.service.pages.rendering import page_not_found
from setwise.service.pages.response_headers import ResponseHeaders

ROUTERS = (
    static_files.router,
    login.router,
    explore.router,
    account.router,
    ask.router,
    answers.router,
    steward.router,
    audit.router,
)

__all__ = ["ROUTERS", "add_pages", "page_not_found"]


def add_pages(app: FastAPI) -> None:
    """Add the pages to the application, and to every answer the headers that keep browsers in bounds."""
    for router in ROUTERS:
        app.include_router(router)
    check_rights(ROUTERS)
    app.add_middleware(ResponseHeaders, tls=app.state.service.settings.secure_cookies)
