"""Random trees and small helpers for the tests of snapshots."""
