"""The timeouts of a worker's broker connections, by which it detects a silent broker."""

import pytest
from celery import Celery

from mcp_app.celery_adapter import consumer
from mcp_app.celery_adapter.broker import RUN_TASK
from mcp_app.celery_adapter.consumer import SILENCE_SECONDS, SteadyConsumer

pytestmark = pytest.mark.fault("C8")


def prepared(url, **conf):
    app = Celery("broker-loss", broker=url, set_as_current=False)
    app.conf.update(conf)
    consumer.configure(app)
    return app.conf


@pytest.mark.parametrize("url", ["redis://localhost", "rediss://localhost", "sentinel://localhost;sentinel://other"])
def test_reads_from_redis_are_bounded(url):
    conf = prepared(url)
    assert conf.broker_transport_options == {
        "socket_timeout": SILENCE_SECONDS,
        "health_check_interval": SILENCE_SECONDS,
    }


def test_rabbitmq_is_listened_to_for_its_heartbeat():
    conf = prepared("amqp://localhost")
    assert conf.broker_heartbeat == 2 * SILENCE_SECONDS
    assert conf.broker_transport_options == {"read_timeout": SILENCE_SECONDS, "write_timeout": SILENCE_SECONDS}


def test_what_the_site_has_set_stays():
    options = {"socket_timeout": 60, "visibility_timeout": 7200}
    conf = prepared("redis://localhost", broker_transport_options=options, worker_consumer="site.consumers:Consumer")
    assert conf.broker_transport_options == {**options, "health_check_interval": SILENCE_SECONDS}
    assert conf.worker_consumer == "site.consumers:Consumer"
    assert prepared("amqp://localhost", broker_heartbeat=0).broker_heartbeat == 0


def test_the_embedded_broker_has_no_connection_to_lose():
    conf = prepared("mcpfs://", broker_transport_options={"folder": "there"})
    assert conf.broker_transport_options == {"folder": "there"}


@pytest.mark.fault("C9")
def test_messages_that_cannot_be_given_back_do_not_end_the_worker(caplog):
    class Lost:
        """A stand-in for kombu's Redis connection without the client that returns messages."""

        connection_errors = channel_errors = ()

        def collect(self, socket_timeout):
            self.client = None

        def close(self):
            return self.client.hostname

    consumer = object.__new__(SteadyConsumer)
    consumer.connection = Lost()
    consumer.on_connection_error_after_connected(ConnectionError("gone"))
    assert consumer.connection is None
    assert all(fact in caplog.text for fact in ("not be returned", "supervision", "hostname"))


@pytest.mark.fault("C9")
def test_a_site_that_acknowledges_late_does_so_for_its_own_tasks_alone():
    """Otherwise RabbitMQ would redeliver calls that outlive their connection, and the claim would reject them."""
    app = Celery("late", set_as_current=False)
    app.conf.update(task_acks_late=True, task_reject_on_worker_lost=True)
    assert app.tasks[RUN_TASK].acks_late is False
