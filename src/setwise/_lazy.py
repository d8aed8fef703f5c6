"""Exports that are imported when they are first used, so that `import setwise` and `setwise --help` are fast.

A package lists its exports once, in the stub `__init__.pyi` beside its `__init__.py`. Type checkers and editors read
the stub, and so does this module at run time. (Scientific Python calls this pattern SPEC 1.)
"""

from collections.abc import Callable
from importlib import import_module


def stub_exports(package_file: str) -> dict[str, str]:
    """Return a dict from each exported name of a package to the module that defines this name.

    `package_file` is the path of the package's `__init__.py`. The stub `__init__.pyi` beside it has one line `from
    MODULE import NAME as NAME` for each export.
    """
    with open(f"{package_file}i", encoding="utf-8") as stub:  # importing pathlib would take longer than all else here
        return {words[3]: words[1] for line in stub if (words := line.split()) and words[0] == "from"}


_RENAMED = {"setwise": {"Answer": "CertifiedBound"}}
"""Former names of exports and their present names, by package, for the error message about a former name."""


def attach_stub(package: str, package_file: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for a package whose exports are imported when first used.

    `package` is the package's name, and `package_file` the path of its `__init__.py`. The exports are those that the
    stub `__init__.pyi` in the same folder lists.
    """
    homes = stub_exports(package_file)
    names = sorted(homes)

    def get(name: str) -> object:
        if name not in homes:
            renamed = _RENAMED.get(package, {}).get(name)
            hint = f"; it is called {renamed!r} now" if renamed else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        if homes[name] == package:
            return import_module(f"{package}.{name}")
        return getattr(import_module(homes[name]), name)

    return get, lambda: names, names
