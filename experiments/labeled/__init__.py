"""A user's own labels measured on the cells of a cache: a module a kind of label."""
