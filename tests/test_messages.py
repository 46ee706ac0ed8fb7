"""`python -m tests.messages` lists the messages that people read, and leaves out all other strings."""

from tests.messages import in_module, in_template, messages

MODULE = '''
"""This docstring is no message."""

logger.warning("request %s was not found", key)
SQL = "SELECT id FROM mcp_app_request"
raise ToolError(f"There is no file {path} here.")
'''
TEMPLATE = """<p>{% if live %}This page updates itself.{% endif %}</p>"""


def test_strings_that_people_read_are_messages(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(MODULE)
    assert list(in_module(module)) == [
        (4, "request %s was not found", True),
        (6, "There is no file {…} here.", False),
    ]


def test_the_text_of_a_template_is_a_message(tmp_path):
    template = tmp_path / "page.html"
    template.write_text(TEMPLATE)
    assert [text for _, text, _ in in_template(template)] == ["This page updates itself."]


def test_each_reader_has_messages():
    assert all(messages().values())
