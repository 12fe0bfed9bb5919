"""How fast the package is, against programs that do the same: `python -m benchmarks`, or `make bench`.

Each opponent is a module that gives the total paper value of every run of a `Study`, from the same draws as the
package's own `simulate`. Tests hold them to the same totals, so that all of them do the same work.
"""
