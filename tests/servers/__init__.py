"""Real servers, started by the tests on loopback, each with a folder of its own."""
