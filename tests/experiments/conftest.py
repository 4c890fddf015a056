"""What all tests of experiments share."""

from collections.abc import Iterator

import pytest

from experiments.tasks import TASKS


@pytest.fixture(autouse=True, scope="module")
def own_tasks() -> Iterator[None]:
    """Tasks that a module's tests register are gone after it."""
    before = dict(TASKS)
    yield
    TASKS.clear()
    TASKS.update(before)
