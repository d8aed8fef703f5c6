"""The web pages, beside the API in one application: rendered here, drawn by a chart library served from here."""

from setwise.service.pages import account, answers, ask, assets, explore, login, steward

PAGE_ROUTERS = (
    assets.router,
    login.router,
    explore.router,
    account.router,
    ask.router,
    answers.router,
    steward.router,
)
