class LedgerRouter:
    """The ledger has a database of its own."""

    def db_for_read(self, model, **hints):
        return "ledger" if model._meta.app_label == "orders" else None

    db_for_write = db_for_read

    def allow_migrate(self, db, app_label, **hints):
        if app_label == "orders":
            return db == "ledger"
        return False if db == "ledger" else None
