import logging
import time

from celery import shared_task
from celery.exceptions import SoftTimeLimitExceeded

logger = logging.getLogger(__name__)


@shared_task
def index(seconds):
    """Index documents, and go on after the soft limit."""
    try:
        time.sleep(seconds)
    except SoftTimeLimitExceeded:
        logger.warning("the soft limit of index has passed")
        time.sleep(seconds)
    logger.warning("index has ended")
