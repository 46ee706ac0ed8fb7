"""The README's two edits and its tool, in a new project, as a reader makes them."""

import sys
from pathlib import Path

from tests.docs.pages import snippet
from tests.site_setup.conftest import Site

PATIENCE = 120.0


def test_two_edits_and_a_tool_are_served(first_project: Site) -> None:
    site = first_project
    for file, block in (
        ("mysite/settings.py", snippet("README.md#add-it-to-your-site:2")),
        ("mysite/asgi.py", snippet("README.md#add-it-to-your-site:3")),
        ("greetings/mcp_tools.py", snippet("README.md#add-it-to-your-site:4")),
    ):
        with (site.folder / file).open("a") as written:
            written.write(f"\n{block.text}")
    with (site.folder / "mysite/settings.py").open("a") as written:
        written.write('INSTALLED_APPS += ["greetings"]\n')

    migrate, serve = snippet("README.md#add-it-to-your-site:5").text.splitlines()
    site.run("bash", "-euc", migrate.replace("python ", f"{sys.executable} ", 1))
    program = site.start("bash", "-euc", f"exec {serve.replace('python ', f'{sys.executable} ', 1)} --port=0")
    program.says("READY", PATIENCE)
    port = program.says(r"MCP endpoint +http://127\.0\.0\.1:(\d+)/mcp")[1]
    connect = snippet("README.md#add-it-to-your-site:6").text.strip().replace(":8000/", f":{port}/")
    assert connect in " ".join(program.output().split())
    call = site.start(sys.executable, "manage.py", "mcp", "call", "wait", "--arg=seconds=60")
    call.says("[1-9] of 60", PATIENCE)
    call.interrupt()
    assert call.wait(PATIENCE) != 0
    assert "cancelled" in call.output()
    program.interrupt()
    program.wait(PATIENCE)
    site.await_no_process()


def test_the_app_is_installed_from_a_clone(site: Site, installed: Path) -> None:
    clone = installed.parent / "checkout"
    install = snippet("README.md#add-it-to-your-site").text.strip()
    assert install == "python -m pip install /path/to/this/clone"
    install = install.replace("/path/to/this/clone", str(clone))
    site.run("bash", "-euc", f"{installed}/bin/{install} --no-deps", within=300.0)
    site.run(f"{installed}/bin/python", "-c", "import mcp_app")
