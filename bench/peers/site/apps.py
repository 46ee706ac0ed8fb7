"""The app of the benchmark's site: its tools, and on request a record of every statement."""

import os

from django.apps import AppConfig

from bench.peers.site import statements


class SiteConfig(AppConfig):
    name = "bench.peers.site"
    label = "bench_site"

    def ready(self) -> None:
        if path := os.environ.get(statements.FILE):
            statements.record(path)
