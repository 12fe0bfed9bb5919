"""The speed of the package, compared with programs that do the same work: `python -m benchmarks`, or `make bench`.

Each opponent is a module that computes the total paper value of every run of a `Study`, from the same draws as the
package's own `simulate`. Tests require equal totals, so all of them do the same work.
"""
