"""Give the tests of this repository the fixture `pytester`, which only a conftest.py of the root folder may load."""

pytest_plugins = ["pytester"]
