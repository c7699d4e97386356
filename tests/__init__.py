"""The tests. A file is named after the file it tests, a test is one sentence."""
