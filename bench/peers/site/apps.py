"""The app of the benchmark's site: its tools, and on request a record of every statement, or of each one's plan."""

import os

from django.apps import AppConfig

from bench.peers.site import plans, statements


class SiteConfig(AppConfig):
    name = "bench.peers.site"
    label = "bench_site"

    def ready(self) -> None:
        if path := os.environ.get(statements.FILE):
            statements.record(path)
        if path := os.environ.get(plans.FILE):
            plans.record(path)
