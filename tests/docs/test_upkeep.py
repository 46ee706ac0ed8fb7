"""The command that docs/how-to/upkeep.md gives to cron runs, and prints nothing."""

import shlex

import pytest
from django.core.management import call_command

from tests.docs.pages import snippet


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_cron_is_mailed_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    *times, command = snippet("how-to/upkeep.md#what-is-kept-and-for-how-long").text.split(maxsplit=5)
    assert times == ["17", "3", "*", "*", "*"]
    place, purge = command.strip().split(" && ")
    assert place == "cd /srv/site"
    python, manage, *arguments = shlex.split(purge)
    assert (python, manage) == (".venv/bin/python", "manage.py")
    call_command(*arguments)
    assert capfd.readouterr() == ("", "")
