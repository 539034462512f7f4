"""The GraphQL endpoint: requests, schema, paging and errors."""
