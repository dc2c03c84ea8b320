"""The models on disk: manifests and what they name."""

from infra.catalog.catalog import Catalog, CatalogEntry, Refused, load

__all__ = ["Catalog", "CatalogEntry", "Refused", "load"]
