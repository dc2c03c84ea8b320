"""What hosts of cards reach: orders, reports, blobs. Behind a token of their own, never for clients."""
