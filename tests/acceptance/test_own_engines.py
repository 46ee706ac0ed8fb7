"""The engines that tests may stop come back on their port."""

import pytest

from tests.support.site import own_engines
from tests.support.site.services import ServicesMissingError, missing

pytestmark = pytest.mark.engines


@pytest.mark.parametrize("kind", ["postgresql", "redis", "rabbitmq"])
def test_an_engine_comes_back_on_its_port_however_it_ended(kind):
    from kombu import Connection

    def speak():
        if kind == "postgresql":
            import psycopg

            psycopg.connect(engine.url, connect_timeout=5).close()
            return
        with Connection(engine.url, connect_timeout=5) as connection:
            connection.connect()

    try:
        with getattr(own_engines, kind)() as engine:
            speak()
            for end in (engine.stop, engine.kill):
                end()
                engine.start()
                speak()
    except ServicesMissingError as error:
        missing(str(error))
