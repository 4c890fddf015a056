"""The import rule: imports only ever point down."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("hooks", "activations_cache", "probes", "experiments")
MAY_IMPORT = {
    "probes": set(),
    "hooks": set(),
    "activations_cache": {"hooks.activations"},
    "experiments": {"hooks", "activations_cache", "probes"},
}


def our_imports(package: str) -> list[tuple[str, str]]:
    """(file:line, module) of every import of one of our packages, outside the package itself."""
    found = []
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}:{node.lineno}: relative import"
                modules = [node.module or ""]
            else:
                continue
            found += [
                (f"{path.relative_to(ROOT)}:{node.lineno}", module)
                for module in modules
                if module.split(".")[0] in PACKAGES and module.split(".")[0] != package
            ]
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_down(package: str) -> None:
    allowed = MAY_IMPORT[package]
    wrong = [
        f"{where} imports {module}"
        for where, module in our_imports(package)
        if module not in allowed and module.split(".")[0] not in allowed
    ]
    assert not wrong


def test_the_rule_sees_imports() -> None:
    assert any(module == "probes" for _, module in our_imports("experiments"))
    assert any(module == "hooks.activations" for _, module in our_imports("activations_cache"))
