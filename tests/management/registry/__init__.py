"""An app whose tool only some users may call."""
