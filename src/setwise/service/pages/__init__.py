"""The web pages, beside the API in one application: rendered here, drawn by a chart library served from here."""

from setwise.service.pages import account, ask, live, login, rendering, steward

PAGE_ROUTERS = (rendering.router, login.router, account.router, ask.router, live.router, steward.router)
