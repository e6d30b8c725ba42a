"""The version, where every room can read it without importing the public names."""

VERSION = "0.2.0"
