"""The web pages, beside the API in one application: rendered here, drawn by a chart library served from here."""

from setwise.service.pages import account, answers, ask, assets, audit, explore, login, sign_on, steward

PAGE_ROUTERS = (
    assets.router,
    login.router,
    sign_on.router,
    explore.router,
    account.router,
    ask.router,
    answers.router,
    steward.router,
    audit.router,
)
