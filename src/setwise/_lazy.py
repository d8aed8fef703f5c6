"""Exports that are loaded when they are first used, so that `import setwise` and `setwise --help` stay quick.

A package lists its exports once, in the stub `__init__.pyi` beside its `__init__.py`. Type checkers and editors read
the stub; at run time this module does. (Scientific Python calls this pattern SPEC 1.)
"""

from collections.abc import Callable
from importlib import import_module


def stub_exports(package_file: str) -> dict[str, str]:
    """Return the module that each export lives in: the stub has one line `from MODULE import NAME as NAME` for each."""
    with open(f"{package_file}i", encoding="utf-8") as stub:  # pathlib would take longer to load than all else here
        return {words[3]: words[1] for line in stub if (words := line.split()) and words[0] == "from"}


_RENAMED = {"setwise": {"Answer": "CertifiedBound"}}
"""Exports that have another name now, by package: whoever asks for the old name is told the new one."""


def attach_stub(package: str, package_file: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for the package whose stub stands beside `package_file`."""
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
