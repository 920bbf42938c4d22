"""The programs here run in processes of their own: pytest does not import them."""

collect_ignore_glob = ["with_*.py"]
