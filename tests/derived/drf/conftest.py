"""The tests in this folder need Django REST framework, which the basic tests do not install."""

import pytest

for module in ("rest_framework", "push_notifications"):
    pytest.importorskip(module, reason=f"NO {module}: pip install -r .ci/requirements.txt")
