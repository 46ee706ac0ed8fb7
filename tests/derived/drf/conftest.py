"""The tests of this folder need Django REST framework, which the basic tests do without."""

import pytest

pytest.importorskip("rest_framework", reason="NO Django REST framework: pip install -r .ci/requirements.txt")
