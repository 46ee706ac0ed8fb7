"""The app of the benchmark's site. It can record every SQL statement, or the plan of every statement."""

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
