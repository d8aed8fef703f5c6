"""REST: routes, bodies, answers, problem documents."""
