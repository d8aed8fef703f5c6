"""The web pages, which the same application serves beside the API, with their scripts, styles and chart library."""

from setwise.service.pages import account, ask, live, login, rendering, steward

PAGE_ROUTERS = (rendering.router, login.router, account.router, ask.router, live.router, steward.router)
